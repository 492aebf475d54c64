import type { Messages } from '../../lib/language.svelte';
import { plural } from '../../lib/plural';

export const rollouts: Messages['rollouts'] = {
  goLiveByStages: 'Stufenweise live schalten',
  hasBegun: (version) => `Version ${version} geht stufenweise live.`,
  fromTo: (from, to) => `Ausrollen von Version ${to} anstelle von ${from}`,
  states: { running: 'läuft', promoting: 'geht live', watching: 'live, unter Beobachtung', reverting: 'geht zurück', done: 'fertig', rolled_back: 'zurückgenommen', stopped: 'angehalten', replaced: 'ersetzt' },
  promoteNow: 'Jetzt live schalten',
  stop: 'Anhalten',
  rollBack: 'Zurücknehmen',
  stages: 'Stufen',
  live: 'live',
  version: 'Version',
  requests: 'Anfragen',
  errors: 'Fehler',
  evidence: 'Anzeichen, dass sie schlechter ist',
  conditions: { error_rate: 'Fehlerrate', latency: 'Latenz', disagreement: 'Abweichende Antworten' },
  compared: (n, different) => `${plural(n, { one: '# Antwort', other: '# Antworten' })} verglichen, davon ${different} verschieden`,
  events: 'Was geschehen ist',
};

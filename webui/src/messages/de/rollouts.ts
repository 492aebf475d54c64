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
  answers: 'Antworten',
  errors: 'Fehler',
  evidence: 'Anzeichen, dass sie schlechter ist',
  conditions: { error_rate: 'Fehlerrate', latency: 'Latenz', disagreement: 'Abweichende Antworten', metric: 'Messgröße' },
  compared: (n, different) => `${plural(n, { one: '# Antwort', other: '# Antworten' })} verglichen, davon ${different} verschieden`,
  metricOf: { clients: (name) => `${name}, in Antworten an Clients`, shadow: (name) => `${name}, in Antworten auf dieselben Anfragen` },
  events: 'Was geschehen ist',
};

import type { Messages } from '../../lib/language.svelte';
import { plural } from '../../lib/plural';

export const history: Messages['history'] = {
  history: 'Verlauf', alerts: 'Alarme', range: 'Zeitraum', hour: 'Stunde', day: 'Tag', week: 'Woche', month: 'Monat',
  bundle: 'Diagnosepaket', model: 'Modell', everyModel: 'Alle Modelle', by: 'Aufteilen nach', total: 'Eine Linie', eachModel: 'Nach Modell', eachVersion: 'Nach Version', eachCaller: 'Nach Schlüssel',
  yesterday: 'Gestern', lastWeek: 'Vorwoche', csv: 'CSV', throughput: 'Durchsatz (Anfr./s)', latency: 'Latenz', percentile: (p) => `${p}-Latenz`, errorRate: 'Fehlerrate', queue: 'Wartezeit',
  requests: 'Anfragen', errors: 'Fehler', before: (what, when) => `${what}, ${when}`,
  none: 'Keine Anfragen in diesem Zeitraum', noneAbout: 'Das Gerät bewahrt Anfragen von 30 Tagen auf, auch über einen Neustart.', version: (n) => `Version ${n}`,
  leftOut: (n) => plural(n, { one: '# weiteres mit weniger Anfragen steht in der CSV-Datei.', other: '# weitere mit weniger Anfragen stehen in der CSV-Datei.' }),
  error_rate: 'Fehlerrate über, %', p99Above: 'p99-Latenz über, ms', disk: 'Plattenbelegung über, %', temperature: 'Temperatur über, °C', model_down: 'Modell ist ausgefallen',
  rules: 'Regeln', rulesAbout: 'Das Gerät prüft sie einmal in der Minute. Ein Alarm beginnt nach so vielen Minuten in Folge und endet unter neun Zehnteln der Grenze.',
  rule: (n) => `Regel ${n}`, kind: 'Bedingung', above: 'Grenze', minutes: 'Minuten lang', remove: 'Entfernen', add: 'Regel hinzufügen', repeat: 'Wiederholen nach Stunden (0: nie)',
  targets: 'Empfänger', webhook: 'Webhook-URL', webhookSet: (host) => `Gesetzt, auf ${host}. Lassen Sie das Feld leer, um sie zu behalten.`, webhookOff: 'Webhook entfernen', emailServer: 'Mailserver (Host:Port)',
  emailFrom: 'Absender', emailTo: 'Empfänger, durch Kommas getrennt', emailUser: 'Benutzer des Mailservers', emailPassword: 'Passwort', passwordSet: 'Gesetzt. Lassen Sie das Feld leer, um es zu behalten.',
  save: 'Speichern', saved: 'Gespeichert.', test: 'Test senden', tested: (target) => `Der Test hat das Ziel ${target} erreicht.`, untested: (target, error) => `Der Test hat das Ziel ${target} nicht erreicht: ${error}`,
  noTarget: 'Es gibt weder einen Webhook noch einen Mailserver.', active: 'Aktiv', noneActive: 'Kein Alarm ist aktiv.', sent: 'Gesendet', noneSent: 'Seit dem Start wurde nichts gesendet.', attempts: (n) => plural(n, { one: '# Versuch', other: '# Versuche' }), ok: 'gesendet',
  onlyAdmin: 'Nur ein Administrator kann dies ändern.', saveFirst: 'Speichern Sie zuerst: Der Test benutzt, was gespeichert ist.',
};

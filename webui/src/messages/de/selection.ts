import type { Messages } from '../../lib/language.svelte';
import { plural } from '../../lib/plural';

export const selection: Messages['selection'] = {
  selection: 'Auswahl',
  selectAll: 'Alle auswählen',
  select: (what) => `${what} auswählen`,
  nSelected: (n) => `${n} ausgewählt`,
  nModels: (n) => plural(n, { one: '# Modell', other: '# Modelle' }),
  nVersions: (n) => plural(n, { one: '# Version', other: '# Versionen' }),
  unloaded: (n) => `${plural(n, { one: '# Modell ist', other: '# Modelle sind' })} offline, gespeichert bleibt alles.`,
  deleted: (what) => `Gelöscht: ${what}.`,
  allFilesAreRemoved: 'Alle Versionen und Dateien werden vom Gerät entfernt, und Anfragen werden mit einem Fehler beantwortet.',
  filesOfVersionsAreRemoved: 'Die Dateien werden vom Gerät entfernt.',
  undoFor: 'Das lässt sich sechs Sekunden lang rückgängig machen.',
  versionOf: (version, name) => `Version ${version} von ${name}`,
  deleteIt: (what) => `${what} löschen`,
  theseDependOnAre: 'Hiervon abhängig und wird mitgelöscht:',
  nameVersion: (name, version) => `${name} Version ${version}`,
  deleteThemToo: 'Diese ebenfalls löschen',
  keepIt: 'Behalten',
  deleteNow: 'Löschen',
};

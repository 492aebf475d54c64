import type { Messages } from '../../lib/language.svelte';
import { plural } from '../../lib/plural';

export const search: Messages['search'] = {
  whatToFind: 'Seite, Modell, Version, Schritt, Ensemble oder Einstellung',
  results: 'Treffer',
  nResults: (n) => plural(n, { one: '# Treffer', other: '# Treffer' }),
  nothing: 'Nichts, das passt.',
  hint: 'Pfeiltasten wählen, Enter öffnet, Escape schließt.',
  page: 'Seite',
  model: 'Modell',
  step: 'Schritt',
  ensemble: 'Ensemble',
  draft: 'Entwurf',
  galleryStep: 'Galerie',
  setting: 'Einstellung',
  limit: 'Grenze',
  versionKind: 'Version',
  version: (n) => `Version ${n}`,
};

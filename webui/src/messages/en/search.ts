import { plural } from '../../lib/plural';

export const search = {
  whatToFind: 'A page, model, version, step, ensemble or setting',
  results: 'Results',
  nResults: (n: number) => plural(n, { one: '# result', other: '# results' }),
  nothing: 'Nothing that matches.',
  hint: 'Arrow keys choose, Enter goes there, Escape closes.',
  page: 'Page',
  model: 'Model',
  step: 'Step',
  ensemble: 'Ensemble',
  draft: 'Draft',
  galleryStep: 'Gallery',
  setting: 'Setting',
  limit: 'Limit',
  versionKind: 'Version',
  version: (n: number) => `version ${n}`,
};

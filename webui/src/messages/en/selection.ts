import { plural } from '../../lib/plural';

export const selection = {
  selection: 'Selection',
  selectAll: 'Select all',
  select: (what: string) => `Select ${what}`,
  nSelected: (n: number) => `${n} selected`,
  nModels: (n: number) => plural(n, { one: '# model', other: '# models' }),
  nVersions: (n: number) => plural(n, { one: '# version', other: '# versions' }),
  unloaded: (n: number) => `${plural(n, { one: '# model is', other: '# models are' })} offline, and stored.`,
  deleted: (what: string) => `Deleted ${what}.`,
  allFilesAreRemoved: 'All versions and files are removed from the box, and requests are answered with an error.',
  filesOfVersionsAreRemoved: 'The files are removed from the box.',
  undoFor: 'It can be undone for six seconds.',
  versionOf: (version: number, name: string) => `version ${version} of ${name}`,
  deleteIt: (what: string) => `Delete ${what}`,
  theseDependOnAre: 'These depend on that and are deleted, too:',
  nameVersion: (name: string, version: number) => `${name} version ${version}`,
  deleteThemToo: 'Delete them too',
  keepIt: 'Keep it',
  deleteNow: 'Delete',
};

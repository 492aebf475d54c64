import { expect, it } from 'vitest';
import { rank, type Entry } from './search';

const entry = (text: string, about = '', words = ''): Entry => ({ text, kind: 'Model', about, to: `/${text}`, words });
const names = (list: Entry[], asked: string, most = 9) => rank(list, asked, most).map((e) => e.text);

it('puts the name that is asked for before names that begin with it, that have it as a word, and that hold it', () => {
  expect(names([entry('surface'), entry('my face'), entry('faces'), entry('face')], 'Face')).toEqual(['face', 'faces', 'my face', 'surface']);
});
it('finds only what holds every word, also in its kind and its notes', () => {
  expect(names([entry('cat', 'from the north'), entry('dog', 'from the north')], 'north model cat')).toEqual(['cat']);
});
it('keeps the order of what fits equally well, up to a bound', () => {
  expect(names([entry('a1'), entry('a2'), entry('a3')], 'a', 2)).toEqual(['a1', 'a2']);
});

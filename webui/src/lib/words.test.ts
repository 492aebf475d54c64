import { describe, expect, it } from 'vitest';
import { languages } from './language.svelte';
import type { Piece } from './rich';

const files = import.meta.glob<Record<string, Tree>>('../messages/*.ts', { eager: true });
type Tree = { [key: string]: Tree | string | ((...values: never[]) => string | Piece[]) };
const english = files['../messages/en.ts']!;

/** Every text below a section, by its path. */
function leaves(tree: Tree, path = ''): Map<string, Exclude<Tree[string], Tree>> {
  return new Map(Object.entries(tree).flatMap(([key, value]) => (typeof value === 'object' ? [...leaves(value, `${path}${key}.`)] : [[path + key, value] as const])));
}
/** Parameters that go as numbers and as words. */
const values = ['2', '3', '4', '5', '6', '7'] as never[];
/** What a text says of them. */
const said = (text: unknown): string => {
  if (typeof text !== 'function') return String(text);
  const parts = text(...values.slice(0, text.length)) as string | Piece[];
  return typeof parts === 'string' ? parts : parts.map((p) => (typeof p === 'string' ? p : p.text)).join('');
};
const markup = (text: unknown): string => {
  const parts = typeof text === 'function' ? text(...values.slice(0, text.length)) : '';
  return Array.isArray(parts) ? parts.map((p: Piece) => (typeof p === 'object' ? `${p.tag} ${p.href ?? ''}` : '')).filter(Boolean).sort().join() : '';
};

describe.each(languages.filter((code) => code !== 'en'))('the texts in %s', (code) => {
  const other = files[`../messages/${code}.ts`]!;
  it('are those of the English file', () => expect([...leaves(other as Tree).keys()].sort()).toEqual([...leaves(english as Tree).keys()].sort()));
  it.each([...leaves(english as Tree)])('%s says something, with the same parameters and elements', (path, text) => {
    const translated = leaves(other as Tree).get(path);
    const digits = (s: string) => [...new Set(s.match(/[2-7]/g) ?? [])].sort();
    expect(said(translated).trim()).not.toBe('');
    if (typeof text === 'function' && typeof translated === 'function' && text.length === translated.length) expect(digits(said(translated))).toEqual(digits(said(text)));
    expect(markup(translated)).toBe(markup(text));
  });
});

describe('the parts of the page', () => {
  const sources = import.meta.glob<string>('../**/*.{svelte,ts}', { query: '?raw', import: 'default', eager: true });
  const absolute = (from: string, to: string) => new URL(to, `file:///lib/${from}`).pathname;
  const files = new Map(Object.entries(sources).map(([path, source]) => [absolute('', path), source]));
  /** The files that one loads, but for the pages that the routes load. */
  const reach = (path: string, seen = new Set<string>()): Set<string> => {
    const source = files.get(path);
    if (source === undefined || seen.has(path)) return seen;
    seen.add(path);
    for (const [, to] of source.matchAll(/(?:from |import\()'(\.[^']*)'/g)) {
      const found = new URL(to!, `file://${path}`).pathname;
      if (!found.endsWith('/routes') && !found.endsWith('/routes.ts')) for (const name of [found, `${found}.ts`]) reach(name, seen);
    }
    return seen;
  };
  const declared = new Map([...files.get('/lib/language.svelte.ts')!.matchAll(/(\w+): import\.meta\.glob\([^)]*sections=([\w,]+)/g)].map(([, part, list]) => [part!, list!.split(',')]));
  const routes = [...files.get('/routes.ts')!.matchAll(/import\('\.(\/pages\/[^']*)'\), words: '(\w+)'/g)].map(([, page, part]) => [page!, part!] as const);
  it.each([...routes, ['/Shell.svelte', 'shell'], ['/pages/Home.svelte', 'shell'], ['/pages/Setup.svelte', 'setup'], ['/pages/Login.svelte', 'core']] as const)('%s loads what it says', (page, part) => {
    const said = new Set([...reach(page)].flatMap((path) => [...files.get(path)!.matchAll(/\bmsg\.(\w+)\./g)].map(([, section]) => section!)));
    const there = new Set([...(part === 'core' || part === 'setup' ? [] : declared.get('shell')!), ...declared.get(part)!]);
    expect([...said].filter((section) => !there.has(section))).toEqual([]);
  });
});

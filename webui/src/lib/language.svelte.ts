import { core } from '../messages/en/core';

/** Every text of the page. The English file says which there are and what each takes; the others must hold the same. */
export type Messages = typeof import('../messages/en');

type Loader = Record<string, () => Promise<unknown>>;
/** The sections that each part of the page needs. A file in src/messages is a language, with its sections in the folder of that name; its parts are loaded one by one. */
const parts = {
  core: import.meta.glob('../messages/*.ts', { query: '?sections=core' }),
  setup: import.meta.glob('../messages/*.ts', { query: '?sections=core,setup,password' }),
  shell: import.meta.glob('../messages/*.ts', { query: '?sections=core,shell' }),
  models: import.meta.glob('../messages/*.ts', { query: '?sections=models,tensors,uploads,selection,backends' }),
  model: import.meta.glob('../messages/*.ts', { query: '?sections=model,goldens,rollouts,tuning,recording,tensors,models,uploads,selection,configuration,backends' }),
  ensembles: import.meta.glob('../messages/*.ts', { query: '?sections=ensembles,tensors' }),
  steps: import.meta.glob('../messages/*.ts', { query: '?sections=steps,tensors' }),
  activity: import.meta.glob('../messages/*.ts', { query: '?sections=activity,history' }),
  settings: import.meta.glob('../messages/*.ts', { query: '?sections=settings,password,uploads,backends' }),
  search: import.meta.glob('../messages/*.ts', { query: '?sections=search,settings,activity,history,backends' }),
  reference: import.meta.glob('../messages/*.ts', { query: '?sections=reference' }),
} satisfies Record<string, Loader>;
export type Part = keyof typeof parts;

const path = (code: string) => `../messages/${code}.ts`;
/** The codes of the languages, as in `<html lang>`; the one that stands in for all others comes first. */
export const languages = ['en', ...Object.keys(parts.core).map((p) => p.slice(path('').length - 3, -3)).filter((c) => c !== 'en').sort()];

const key = 'edgewise.language';
const asked = (): readonly string[] => globalThis.navigator?.languages ?? [];
const base = (tag: string) => tag.split('-')[0]!.toLowerCase();

function stored(): string {
  try {
    return localStorage.getItem(key) ?? '';
  } catch {
    return ''; // the browser keeps nothing for this page
  }
}

/** The language of the page, which is that of the browser unless the reader has chosen one. */
class Language {
  /** What the reader has chosen; empty for the browser's. */
  chosen = $state(languages.includes(stored()) ? stored() : '');
  code = $state('en');
  /** English until the first part has arrived: this much can be said even when the box does not answer. */
  table = $state.raw<Partial<Messages>>({ core });
  private loaded = new Set<Part>();

  constructor() {
    this.code = this.wanted();
    if (this.code === 'en') this.loaded.add('core');
  }

  /** The language and region for numbers and dates: the browser's where it is the same language. */
  get locale(): string {
    return asked().find((tag) => base(tag) === this.code) ?? this.code;
  }

  private wanted(): string {
    return this.chosen || asked().map(base).find((c) => languages.includes(c)) || 'en';
  }

  /** Loads the texts of a part of the page. Its components may be shown when this is done. */
  async load(part: Part): Promise<void> {
    while (!this.loaded.has(part)) {
      const { code } = this;
      const texts = await read(part, code);
      if (code !== this.code) continue;
      this.loaded.add(part);
      this.table = { ...this.table, ...texts };
      document.documentElement.lang = code;
    }
  }

  /** Changes the language of what is shown and remembers it; empty: the language of the browser. */
  async set(chosen: string): Promise<void> {
    this.chosen = chosen;
    try {
      if (chosen) localStorage.setItem(key, chosen);
      else localStorage.removeItem(key);
    } catch {
      // lasts until the page is left
    }
    const code = this.wanted();
    const texts = await Promise.all([...this.loaded].map((part) => read(part, code)));
    if (code !== this.wanted()) return;
    this.table = Object.assign({}, this.table, ...texts);
    this.code = code;
    document.documentElement.lang = code;
  }
}

async function read(part: Part, code: string): Promise<Partial<Messages>> {
  return (await (parts[part] as Loader)[path(code)]!()) as Partial<Messages>;
}

export const language = new Language();

/** The texts in the language of the page, by section: msg.core.cancel. */
export const msg = new Proxy({} as Messages, { get: (_, section) => language.table[section as keyof Messages] });

/** What a language calls itself. */
export function nameOf(code: string): string {
  const name = new Intl.DisplayNames([code], { type: 'language' }).of(code) ?? code;
  return name.charAt(0).toLocaleUpperCase(code) + name.slice(1);
}

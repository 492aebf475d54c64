import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Plugin } from 'vite';

type Package = { name: string; version: string; license?: string; dependencies?: Record<string, string> };

/** Writes licences.txt: every package that the page carries, with its licence's text. */
export function licences(): Plugin {
  return {
    name: 'edgewise-licences',
    apply: 'build',
    generateBundle() {
      const own = read('.');
      const all = new Map<string, Package>();
      for (const name of [...Object.keys(own.dependencies ?? {}), 'assemblyscript']) gather(name, all);
      const parts = [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).map((p) => `${p.name} ${p.version} (${p.license ?? 'see below'})\n\n${text(p.name)}`);
      this.emitFile({ type: 'asset', fileName: 'licences.txt', source: parts.join(`\n\n${'-'.repeat(72)}\n\n`) });
    },
  };
}

const read = (folder: string): Package => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));

function gather(name: string, all: Map<string, Package>): void {
  const folder = join('node_modules', name);
  if (all.has(name) || !existsSync(join(folder, 'package.json'))) return;
  const found = read(folder);
  all.set(name, found);
  for (const next of Object.keys(found.dependencies ?? {})) gather(next, all);
}

function text(name: string): string {
  const folder = join('node_modules', name);
  const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f));
  return file ? readFileSync(join(folder, file), 'utf8').trim() : '';
}

import { readFileSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { load } from 'js-yaml';
import type { Plugin } from 'vite';

const sdk = resolve(import.meta.dirname, '../../sdk');

/**
 * The module "virtual:sdk": the AssemblyScript files of the guest SDK, which steps in the browser are compiled with, and its
 * examples. They are texts here: a bundler would take them for TypeScript.
 */
export function sources(): Plugin {
  return {
    name: 'edgewise-sources',
    resolveId: (id) => (id === 'virtual:sdk' ? '\0virtual:sdk' : undefined),
    load(id) {
      if (id !== '\0virtual:sdk') return undefined;
      const folder = resolve(sdk, 'assemblyscript');
      const library = Object.fromEntries(readdirSync(folder).filter((f) => f.endsWith('.ts')).map((f) => ['edgewise/' + f, read(resolve(folder, f))]));
      const scale = read(resolve(sdk, 'template/assemblyscript/step.ts'));
      const classes = read(resolve(folder, 'example/step.ts'));
      return Object.entries({ library, scale, classes }).map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`).join('\n');
    },
  };
}

const read = (path: string): string => readFileSync(path, 'utf8');

/** The module "virtual:openapi": the document of the administration API, read when the page is built. */
export function openapi(): Plugin {
  return {
    name: 'edgewise-openapi',
    resolveId: (id) => (id === 'virtual:openapi' ? '\0virtual:openapi' : undefined),
    load: (id) => (id === '\0virtual:openapi' ? 'export default ' + JSON.stringify(load(read(resolve(sdk, '../api/openapi.yaml')))) : undefined),
  };
}

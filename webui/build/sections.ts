import type { Plugin } from 'vite';

const wanted = /\/messages\/[\w-]+\.ts\?sections=([\w,]+)/;

/**
 * Leaves of NAME.ts?sections=a,b in src/messages these two sections: a part of the page loads the texts that it shows. The
 * query goes on to the files of the sections, so that no two parts share one: each part is one request.
 */
export function sections(): Plugin {
  return {
    name: 'edgewise-sections',
    enforce: 'pre',
    transform(code, id) {
      const kept = wanted.exec(id)?.[1]?.split(',');
      if (!kept) return undefined;
      const lines = code.replace(/^export \{ (\w+) \} from '(.+)';$/gm, (_, name: string, file: string) => (kept.includes(name) ? `export { ${name} } from '${file}.ts?part=${kept.join()}';` : ''));
      return { code: lines, map: null };
    },
  };
}

import type { Plugin } from 'vite';

const wanted = /\/messages\/[\w-]+\.ts\?sections=([\w,]+)/;

/** Leaves of NAME.ts?sections=a,b in src/messages these two sections: a part of the page loads the texts that it shows. */
export function sections(): Plugin {
  return {
    name: 'edgewise-sections',
    enforce: 'pre',
    transform(code, id) {
      const kept = wanted.exec(id)?.[1]?.split(',');
      if (!kept) return undefined;
      return { code: code.replace(/^export (?=const (\w+))/gm, (all, name: string) => (kept.includes(name) ? all : '')), map: null };
    },
  };
}

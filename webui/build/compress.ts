import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';

const dist = 'dist';
const cache = 'node_modules/.cache/compressed';
const text = /\.(js|css|svg|html|txt|webmanifest|wasm)$/;
const keep = new Set(['stub.html']);

/** The hardest setting takes half a minute for the compiler's 14 MB and saves 3 % of it. */
const hardBytes = 4 << 20;

/**
 * Makes NAME.br and NAME.gz of every text file of a build and removes the file itself, so that the program does not carry
 * the same bytes three times. What was compressed once is taken from a cache.
 */
export function compress(): Plugin {
  return {
    name: 'edgewise-compress',
    apply: 'build',
    buildStart() {
      for (const name of existsSync(dist) ? readdirSync(dist) : []) {
        if (!keep.has(name)) rmSync(join(dist, name), { recursive: true });
      }
    },
    closeBundle() {
      mkdirSync(cache, { recursive: true });
      for (const path of files(dist)) {
        if (keep.has(path.slice(dist.length + 1)) || !text.test(path)) continue;
        const body = readFileSync(path);
        writeFileSync(path + '.br', cached(body, 'br', brotli));
        writeFileSync(path + '.gz', cached(body, 'gz', (b) => gzipSync(b, { level: 9 })));
        rmSync(path);
      }
    },
  };
}

function brotli(body: Buffer): Buffer {
  return brotliCompressSync(body, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: body.length > hardBytes ? 9 : 11,
      [constants.BROTLI_PARAM_LGWIN]: 24,
      [constants.BROTLI_PARAM_SIZE_HINT]: body.length,
    },
  });
}

function cached(body: Buffer, form: string, make: (body: Buffer) => Buffer): Buffer {
  const path = join(cache, createHash('sha256').update(body).digest('hex') + '.' + form);
  if (existsSync(path)) return readFileSync(path);
  const packed = make(body);
  writeFileSync(path, packed);
  return packed;
}

function files(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

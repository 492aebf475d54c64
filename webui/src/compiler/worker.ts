/// <reference lib="webworker" />
import asc from 'assemblyscript/asc';
import { library } from 'virtual:sdk';
import type { Asked, Compiled } from './compile';
import { appendLines } from './sourcemap';

/**
 * Compiles AssemblyScript to WebAssembly. Only its response has a content security policy that allows compiling WebAssembly from
 * bytes, and it can load only its own scripts: the compiler is 14 MB of unreviewed code.
 */
const files = new Map(Object.entries(library));

/** The options of "edgewise step build", and a source map, of which the lines go into the module. */
const options = ['step.ts', '-O3', '--enable', 'simd', '--runtime', 'incremental', '--use', 'abort=edgewise/host/abort', '--disableWarning', '201', '--debug', '--sourceMap', '--outFile', 'step.wasm'];

self.onmessage = async (e: MessageEvent<Asked>) => {
  const began = performance.now();
  const source = new Map(files).set('step.ts', e.data.source);
  let wasm: Uint8Array<ArrayBuffer> | null = null;
  let map = '';
  const messages: string[] = [];
  const { error } = await asc.main(options, {
    readFile: (name) => source.get(name.replace(/^\.?\//, '')) ?? null,
    writeFile: (name, contents) => {
      if (name === 'step.wasm' && typeof contents !== 'string') wasm = contents.slice();
      else if (name === 'step.wasm.map') map = String(contents);
    },
    listFiles: () => [],
    stdout: { write: () => {} },
    stderr: { write: (chunk) => { messages.push(typeof chunk === 'string' ? chunk : new TextDecoder().decode(chunk)); } },
  });
  const answer: Compiled = { wasm: error || !wasm ? null : appendLines(wasm, map), text: messages.join('') || (error?.message ?? ''), milliseconds: performance.now() - began };
  self.postMessage(answer);
};

// The compiler starts asynchronously and would lose an earlier message, so the page waits for this one.
self.postMessage('ready');

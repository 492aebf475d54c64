/// <reference lib="webworker" />
import asc from 'assemblyscript/asc';
import { library } from 'virtual:sdk';
import type { Asked, Compiled } from './compile';

/**
 * Compiles AssemblyScript to WebAssembly. Its response is the only one of the box whose policy lets WebAssembly be made of
 * bytes, and which reaches nothing but its own scripts: the compiler is a program of 14 MB that nobody here has read.
 */
const files = new Map(Object.entries(library));

/** The options of "edgewise step build", so that a step is the same wherever it was built. */
const options = ['step.ts', '-O3', '--enable', 'simd', '--runtime', 'incremental', '--use', 'abort=edgewise/host/abort', '--disableWarning', '201', '--outFile', 'step.wasm'];

self.onmessage = async (e: MessageEvent<Asked>) => {
  const began = performance.now();
  const source = new Map(files).set('step.ts', e.data.source);
  let wasm: Uint8Array<ArrayBuffer> | null = null;
  const messages: string[] = [];
  const { error } = await asc.main(options, {
    readFile: (name) => source.get(name.replace(/^\.?\//, '')) ?? null,
    writeFile: (name, contents) => {
      if (name === 'step.wasm' && typeof contents !== 'string') wasm = contents.slice();
    },
    listFiles: () => [],
    stdout: { write: () => {} },
    stderr: { write: (chunk) => { messages.push(typeof chunk === 'string' ? chunk : new TextDecoder().decode(chunk)); } },
  });
  const answer: Compiled = { wasm: error ? null : wasm, text: messages.join('') || (error?.message ?? ''), milliseconds: performance.now() - began };
  self.postMessage(answer);
};

// The compiler's own start is asynchronous: a question that came before would be lost, so the page waits for this.
self.postMessage('ready');

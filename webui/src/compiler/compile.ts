import url from './worker?worker&url';
import { msg } from '../lib/language.svelte';

export type Asked = { source: string };
/** The compiled module, or the messages of the compiler. */
export type Compiled = { wasm: Uint8Array<ArrayBuffer> | null; text: string; milliseconds: number };
/** A message of the compiler, at a place of the source: lines and columns from 1. */
export type Message = { severity: 'error' | 'warning' | 'info'; line: number; column: number; length: number; text: string };

/** The time limit of a compilation. */
const patience = 120_000;

/** The only trusted script URL: the worker's. */
function address(): string {
  const script = new URL(url, location.href).href;
  const types = (globalThis as { trustedTypes?: { createPolicy: (name: string, rules: object) => { createScriptURL: (text: string) => string } } }).trustedTypes;
  return types ? (policy ??= types.createPolicy('edgewise-worker', { createScriptURL: (text: string) => { if (text !== script) throw new TypeError('BUG: not the worker'); return text; } })).createScriptURL(script) : script;
}
let policy: { createScriptURL: (text: string) => string } | undefined;

/** Loads the compiler from the box before its first use. */
export function warm(): void {
  if (!worker && !idle) idle = begin();
}

/** Compiles a step's source. One compilation runs at a time; another call ends it. */
export async function compile(source: string): Promise<Compiled> {
  worker?.stop(new Error(msg.steps.anotherCompilationHasBegun));
  const mine = idle ?? begin();
  idle = null;
  worker = mine;
  const timer = setTimeout(() => mine.stop(new Error(msg.steps.compilerDidNotCome)), patience);
  try {
    const done = await mine.ask(source);
    idle = mine;
    return done;
  } finally {
    clearTimeout(timer);
    if (worker === mine) worker = null;
  }
}

/** A cancelled compilation. */
export class Cancelled extends Error {}

/** Ends the compilation that runs, if one does. */
export function cancel(): void {
  worker?.stop(new Cancelled(msg.steps.compilationWasCancelled));
}

type Running = { ask: (source: string) => Promise<Compiled>; stop: (why: Error) => void };
let worker: Running | null = null;
let idle: Running | null = null;

function begin(): Running {
  const thread = new Worker(address(), { type: 'module', name: 'compiler' });
  let answer: ((c: Compiled) => void) | null = null;
  let refuse: (why: Error) => void = () => {};
  const broken = new Promise<never>((_, reject) => (refuse = reject));
  broken.catch(() => {}); // callers receive the error
  const ready = new Promise<void>((resolve) => {
    thread.onmessage = (e: MessageEvent<Compiled | 'ready'>) => (e.data === 'ready' ? resolve() : answer?.(e.data));
  });
  const stop = (why: Error) => {
    thread.terminate();
    if (idle === running) idle = null;
    refuse(why);
  };
  thread.onerror = (e) => stop(new Error(e.message || msg.steps.compilerCouldNotLoaded));
  const running: Running = {
    stop,
    ask: async (source) => {
      await Promise.race([ready, broken]);
      const done = new Promise<Compiled>((resolve) => (answer = resolve));
      thread.postMessage({ source } satisfies Asked);
      return Promise.race([done, broken]);
    },
  };
  return running;
}

const head = /(ERROR|WARNING|INFO)\s+([A-Z]+\d+):?\s*(.*)/;
const place = /in ~?([\w./-]+)\((\d+),(\d+)\)/;

/** The messages of the compiler by position. Messages about other files are reported at the first line. */
export function messages(text: string): Message[] {
  const list: Message[] = [];
  for (const line of text.split('\n')) {
    const found = head.exec(line);
    if (found) list.push({ severity: found[1]!.toLowerCase() as Message['severity'], line: 1, column: 1, length: 1, text: found[3]!.replace(/\.?$/, '.') });
    const last = list.at(-1);
    const at = place.exec(line);
    if (at && last) {
      if (at[1] === 'step.ts') Object.assign(last, { line: Number(at[2]), column: Number(at[3]) });
      else last.text += ` (in ${at[1]}, line ${at[2]})`;
    }
    const marks = /^\s*│?\s*(~+|\^)/.exec(line);
    if (marks && last) last.length = Math.max(1, marks[1]!.length);
  }
  return list;
}

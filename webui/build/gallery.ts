import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import asc from 'assemblyscript/asc';
import type { Plugin } from 'vite';

const root = resolve(import.meta.dirname, '../..');
const cache = 'node_modules/.cache/gallery';
/** The options of "edgewise step build". */
const options = ['step.ts', '-O3', '--enable', 'simd', '--runtime', 'incremental', '--use', 'abort=edgewise/host/abort', '--disableWarning', '201', '--outFile', 'step.wasm'];

/**
 * The module "virtual:gallery": the gallery's steps that the page installs, each with the address of its module and what it says of
 * itself. Those in AssemblyScript are compiled here, with the compiler that the page has anyway; those in C come with the demo.
 */
export function gallery(): Plugin {
  let build = false;
  return {
    name: 'edgewise-gallery',
    configResolved(config) { build = config.command === 'build'; },
    resolveId: (id) => (id === 'virtual:gallery' ? '\0virtual:gallery' : undefined),
    async load(id) {
      if (id !== '\0virtual:gallery') return undefined;
      if (!build) return 'export const gallery = {};';
      const steps: string[] = [];
      for (const [name, wasm] of await modules()) {
        const file = this.emitFile({ type: 'asset', name: `${name}.wasm`, source: wasm });
        steps.push(`${JSON.stringify(name)}: { url: import.meta.ROLLUP_FILE_URL_${file}, ...${JSON.stringify(await described(wasm))} }`);
      }
      return `export const gallery = {\n${steps.join(',\n')}\n};`;
    },
  };
}

async function modules(): Promise<[string, Uint8Array][]> {
  const list: [string, Uint8Array][] = [];
  const brought = join(root, 'configs/demo/steps');
  for (const file of readdirSync(brought).filter((f) => f.endsWith('.wasm'))) list.push([file.replace('.wasm', ''), readFileSync(join(brought, file))]);
  const folder = join(root, 'sdk/gallery');
  for (const name of readdirSync(folder)) {
    const source = join(folder, name, 'step.ts');
    if (existsSync(source)) list.push([name, await compiled(name, readFileSync(source, 'utf8'))]);
  }
  return list.sort((a, b) => (a[0] < b[0] ? -1 : 1));
}

async function compiled(name: string, source: string): Promise<Uint8Array> {
  const library = join(root, 'sdk/assemblyscript');
  const files = new Map(readdirSync(library).filter((f) => f.endsWith('.ts')).map((f) => ['edgewise/' + f, readFileSync(join(library, f), 'utf8')]));
  files.set('step.ts', source);
  const path = join(cache, createHash('sha256').update(JSON.stringify([options, ...files])).digest('hex') + '.wasm');
  if (existsSync(path)) return readFileSync(path);
  let wasm: Uint8Array | null = null;
  let text = '';
  const { error } = await asc.main(options, {
    readFile: (file) => files.get(file.replace(/^\.?\//, '')) ?? null,
    writeFile: (file, contents) => { if (file === 'step.wasm' && typeof contents !== 'string') wasm = contents.slice(); },
    listFiles: () => [],
    stdout: { write: () => {} },
    stderr: { write: (chunk) => { text += chunk; } },
  });
  if (error || !wasm) throw new Error(`step ${name} of the gallery does not compile:\n${text || error?.message}`);
  mkdirSync(cache, { recursive: true });
  writeFileSync(path, wasm);
  return wasm;
}

/** What a module returns from edgewise_describe, which calls nothing of the box. */
async function described(wasm: Uint8Array): Promise<{ description: string; parameters: unknown[] }> {
  const nothing = new Proxy({}, { get: () => () => 0 });
  const module = await WebAssembly.compile(wasm as BufferSource);
  const imports = Object.fromEntries(WebAssembly.Module.imports(module).map((i) => [i.module, nothing]));
  const { exports } = await WebAssembly.instantiate(module, imports);
  const call = exports as Record<string, CallableFunction>;
  call._initialize?.();
  call.edgewise_step_v1?.();
  const memory = (exports.memory as WebAssembly.Memory);
  const at = call.edgewise_describe!() as number;
  const length = new DataView(memory.buffer).getUint32(at, true);
  const { description, parameters } = JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, at + 4, length))) as { description: string; parameters?: unknown[] };
  return { description, parameters: parameters ?? [] };
}

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

/**
 * The modules of the API page, read when the page is built: "virtual:openapi" and "virtual:inference" are the documents of both
 * REST APIs, "virtual:grpc" the calls of the gRPC service with their comments.
 */
export function openapi(): Plugin {
  const api = resolve(sdk, '../api');
  const modules: Record<string, () => unknown> = {
    'virtual:openapi': () => load(read(resolve(api, 'openapi.yaml'))),
    'virtual:inference': () => load(read(resolve(api, 'inference.yaml'))),
    'virtual:grpc': () => calls(read(resolve(api, 'inference/grpc_service.proto'))),
  };
  return {
    name: 'edgewise-openapi',
    resolveId: (id) => (id in modules ? '\0' + id : undefined),
    load: (id) => (id.startsWith('\0') && modules[id.slice(1)] ? 'export default ' + JSON.stringify(modules[id.slice(1)]!()) : undefined),
  };
}

/** The calls of a service, each with the messages of its request and response as the file declares them. */
function calls(proto: string) {
  const message = (name: string): string => new RegExp(`^message ${name} \\{(\\}|[^]*?^\\})`, 'm').exec(proto)?.[0] ?? '';
  const found = proto.matchAll(/((?:^ *\/\/.*\n)+) *rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\)/gm);
  return [...found].map(([, comment, name, streamed, request, , response]) => ({
    name, about: comment!.replaceAll(/^ *\/\/ ?/gm, '').trim().replaceAll('\n', ' '), stream: Boolean(streamed), request: message(request!), response: message(response!),
  }));
}

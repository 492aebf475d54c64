/** One operation as the API page shows it. */
export type Operation = { id: string; method: string; path: string; summary: string; description: string; tag: string; right: string; parameters: { name: string; where: string; required: boolean; type: string; description: string }[]; body: string[]; answers: { status: string; description: string; schema: string }[]; schema: string };

type Tree = Record<string, unknown>;

const methods = ['get', 'post', 'put', 'patch', 'delete', 'head', 'options'];

/** Reads the operations of a parsed OpenAPI document, whose paths begin with a prefix. */
export function operations(document: Tree, prefix: string): Operation[] {
  const list: Operation[] = [];
  for (const [path, item] of Object.entries((document.paths ?? {}) as Record<string, Tree>)) {
    for (const method of methods) {
      const o = item[method] as Tree | undefined;
      if (!o) continue;
      const parameters = [...((item.parameters as Tree[]) ?? []), ...((o.parameters as Tree[]) ?? [])].map((p) => resolve(document, p));
      const content = (resolve(document, (o.requestBody as Tree) ?? {}).content ?? {}) as Record<string, Tree>;
      list.push({
        id: String(o.operationId), method: method.toUpperCase(), path: prefix + path, summary: String(o.summary ?? ''), description: String(o.description ?? ''), tag: String((o.tags as string[])?.[0] ?? ''), right: String(o['x-right'] ?? ''),
        parameters: parameters.map((p) => ({ name: String(p.name), where: String(p.in), required: p.required === true, type: type(document, p.schema as Tree), description: String(p.description ?? (p.schema as Tree)?.description ?? '') })),
        body: Object.keys(content), schema: shown(document, content['application/json']?.schema as Tree | undefined),
        answers: Object.entries((o.responses ?? {}) as Record<string, Tree>).map(([status, r]) => { const full = resolve(document, r); return { status, description: String(full.description ?? ''), schema: shown(document, (full.content as Record<string, Tree>)?.['application/json']?.schema as Tree | undefined) }; }),
      });
    }
  }
  return list;
}

function resolve(document: Tree, value: Tree): Tree {
  const ref = value?.$ref;
  if (typeof ref !== 'string') return value ?? {};
  return ref.slice(2).split('/').reduce<Tree>((at, part) => (at?.[part] ?? {}) as Tree, document);
}

function type(document: Tree, schema: Tree | undefined): string {
  if (!schema) return '';
  const s = resolve(document, schema);
  if (Array.isArray(s.enum)) return s.enum.map((v) => JSON.stringify(v)).join(' | ');
  if (s.type === 'array') return type(document, s.items as Tree) + '[]';
  return [s.type].flat().join(' | ') + (s.format ? ` (${s.format})` : '');
}

/** A schema as an outline: members, types and descriptions, three levels deep. */
export function shown(document: Tree, schema: Tree | undefined, depth = 0): string {
  if (!schema) return '';
  const s = resolve(document, schema);
  const parts = (s.allOf as Tree[] | undefined)?.map((p) => resolve(document, p)) ?? [s];
  if (parts[0]?.type === 'array') return '[' + shown(document, parts[0].items as Tree, depth) + ']';
  const properties = Object.assign({}, ...parts.map((p) => p.properties ?? {})) as Record<string, Tree>;
  const names = Object.keys(properties);
  if (!names.length) return type(document, s);
  if (depth > 2) return '{ … }';
  const required = new Set(parts.flatMap((p) => (p.required as string[]) ?? []));
  const pad = '  '.repeat(depth + 1);
  const lines = names.map((n) => `${pad}${n}${required.has(n) ? '' : '?'}: ${shown(document, properties[n], depth + 1)}${properties[n]!.description ? `  // ${String(properties[n]!.description)}` : ''}`);
  return `{\n${lines.join('\n')}\n${'  '.repeat(depth)}}`;
}

/** The curl command of an operation. */
export function curl(base: string, o: Operation): string {
  const path = o.path.replace(/\{(\w+)\}/g, (_, n) => '$' + n.toUpperCase());
  const lines = [`curl ${base.startsWith('https:') ? '--cacert edgewise-ca.pem ' : ''}${o.method === 'GET' ? '' : `-X ${o.method} `}"${base}${path}"`, '-H "Authorization: Bearer $EDGEWISE_KEY"'];
  if (o.body.includes('application/json')) lines.push("-H 'Content-Type: application/json' -d '{ … }'");
  else if (o.body.length) lines.push(`-H 'Content-Type: ${o.body[0]}' --data-binary @file`);
  return lines.join(' \\\n  ');
}

/** The grpcurl command of a call; the box describes its messages by reflection. */
export function grpcurl(secure: boolean, address: string, call: string): string {
  return `grpcurl ${secure ? '-cacert edgewise-ca.pem' : '-plaintext'} -H "authorization: Bearer $EDGEWISE_KEY" \\\n  -d '{ … }' ${address} inference.GRPCInferenceService/${call}`;
}

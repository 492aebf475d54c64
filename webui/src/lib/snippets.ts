import type { VersionDetail } from './api';
import type { Draft } from './draft';
import { elements, text, type Tensor } from './tensor';

export type Snippet = { name: string; text: string };

const most = 48;

/** What every snippet needs to know: whether TLS is used and whether a key is required. */
type Way = { secure: boolean; keyed: boolean };

/** The same request for curl, Python and JavaScript. Long values are placeholders. */
export function snippets(base: string, detail: VersionDetail, drafts: readonly Draft[], live: boolean, sent: readonly Tensor[], keyed = true): Snippet[] {
  const path = `/v2/models/${encodeURIComponent(detail.name)}${live ? '' : `/versions/${detail.version}`}/infer`;
  const way = { secure: base.startsWith('https:'), keyed };
  const media = whole(detail, drafts);
  if (media) return file(base + path, way, media, drafts[0]!.fileName || `my.${media.split('/')[1]}`, detail);
  return json(base + path, way, { ...detail, inputs: detail.inputs.filter((info, i) => !(info.optional && drafts[i]?.skip)) }, sent);
}

/** The media type of a model whose only input is a file. */
function whole(detail: VersionDetail, drafts: readonly Draft[]): string {
  const only = detail.inputs.length === 1 && detail.inputs[0]!.datatype === 'BYTES' ? drafts[0] : undefined;
  if (only?.kind === 'picture') return only.file?.type || 'image/jpeg';
  if (only?.kind === 'sound') return only.file?.type || 'audio/wav';
  return '';
}

const authority = 'edgewise-ca.pem';

function curl(url: string, way: Way, ...rest: string[]): Snippet {
  const lines = [`curl ${way.secure ? `--cacert ${authority} ` : ''}${quote(url)}`, ...(way.keyed ? ['-H "Authorization: Bearer $EDGEWISE_KEY"'] : []), ...rest];
  return { name: 'curl', text: lines.join(' \\\n  ') };
}

function python(url: string, way: Way, before: string, data: string, headers: string[], after: string[]): Snippet {
  const all = [...(way.keyed ? ['"Authorization": "Bearer " + os.environ["EDGEWISE_KEY"]'] : []), ...headers];
  return { name: 'Python', text: `import json${way.keyed ? ', os' : ''}${way.secure ? ', ssl' : ''}, urllib.request

${before}request = urllib.request.Request(
    ${JSON.stringify(url)},
    data=${data},
    headers={${all.map((h) => `\n        ${h},`).join('')}${all.length ? '\n    ' : ''}},
)
${way.secure ? `trusted = ssl.create_default_context(cafile="${authority}")\n` : ''}with urllib.request.urlopen(request${way.secure ? ', context=trusted' : ''}) as response:
    ${after.join('\n    ')}` };
}

function javascript(url: string, way: Way, before: string[], body: string, headers: string[], after: string[]): Snippet {
  const all = [...(way.keyed ? ['Authorization: `Bearer ${process.env.EDGEWISE_KEY}`'] : []), ...headers];
  return { name: 'JavaScript', text: [
    ...(way.secure ? [`// Node.js trusts the box with NODE_EXTRA_CA_CERTS=${authority}`] : []),
    ...before,
    `const response = await fetch(${JSON.stringify(url)}, {`,
    "  method: 'POST',",
    ...(all.length ? ['  headers: {', ...all.map((h) => `    ${h},`), '  },'] : []),
    `  body: ${body},`,
    '});',
    'if (!response.ok) throw new Error((await response.json()).error);',
    ...after,
  ].join('\n') };
}

function file(url: string, way: Way, media: string, name: string, detail: VersionDetail): Snippet[] {
  const outputs = detail.outputs.map((o) => comment(o.name)).join(', ');
  return [
    curl(url, way, `-H 'Content-Type: ${media}'`, `--data-binary @${quote(name)}`),
    python(url, way, '', `open(${JSON.stringify(name)}, "rb").read()`, [`"Content-Type": ${JSON.stringify(media)}`], ['answer = json.load(response)', `for output in answer["outputs"]:  # ${outputs}`, '    print(output["name"], output["shape"], output["data"][:10])']),
    javascript(url, way, ["import { readFile } from 'node:fs/promises';", ''], `await readFile(${JSON.stringify(name)})`, [`'Content-Type': ${JSON.stringify(media)}`], [`const { outputs } = await response.json(); // ${outputs}`, 'console.log(outputs);']),
  ];
}

function json(url: string, way: Way, detail: VersionDetail, sent: readonly Tensor[]): Snippet[] {
  const inputs = detail.inputs.map((info) => {
    const got = sent.find((t) => t.name === info.name);
    const shape = got?.shape ?? (info.shape ?? [1]).map((n) => (n < 0 ? 1 : n));
    return { name: info.name, datatype: info.datatype, shape, data: values(got, info.datatype, shape) };
  });
  const data = `{"inputs":[${inputs.map((i) => `{"name":${JSON.stringify(i.name)},"datatype":"${i.datatype}","shape":${JSON.stringify(i.shape)},"data":${i.data ? `[${i.data.join(',')}]` : '[ … ]'}}`).join(',')}]}`;
  const make = inputs.map((i) => `    {"name": ${JSON.stringify(i.name)}, "datatype": "${i.datatype}", "shape": ${JSON.stringify(i.shape)}, "data": ${i.data ? literal(i.data) : `[${literal([filler(i.datatype)]).slice(1, -1)}] * ${elements(i.shape)}`}},`).join('\n');
  const js = inputs.map((i) => `  { name: ${JSON.stringify(i.name)}, datatype: '${i.datatype}', shape: ${JSON.stringify(i.shape)}, data: ${i.data ? `[${i.data.join(',')}]` : `Array(${elements(i.shape)}).fill(${filler(i.datatype)})`} },`).join('\n');
  // A number of JavaScript does not hold every whole one of 64 bits: such a body is written as it is.
  const exact = inputs.every((i) => !/INT64$/.test(i.datatype) || (i.data ?? []).every((v) => Number.isSafeInteger(Number(v))));
  return [
    curl(url, way, `-d ${quote(data)}`),
    python(url, way, `inputs = [\n${make}\n]\n`, 'json.dumps({"inputs": inputs}).encode()', [], ['print(json.load(response)["outputs"])']),
    javascript(url, way, exact ? ['const inputs = [', js, '];'] : [`const body = ${JSON.stringify(data)};`], exact ? 'JSON.stringify({ inputs })' : 'body', [], ['console.log((await response.json()).outputs);']),
  ];
}

/** Values as Python writes them, out of those of JSON. */
const literal = (data: string[]) => `[${data.map((v) => (v === 'true' ? 'True' : v === 'false' ? 'False' : v)).join(',')}]`;

/** What stands for a value that the reader fills in. */
const filler = (datatype: string) => (datatype === 'BYTES' ? '"text"' : datatype === 'BOOL' ? 'true' : /^(FP|BF)/.test(datatype) ? '0.0' : '0');

/** A name as a part of a line that is only a comment: a model may have any, also one that would end the line. */
const comment = (name: string) => name.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ');

/** Values as JSON writes them; null for what is too long for a line, and for what JSON has no word for: bytes that are not text, NaN. */
function values(got: Tensor | undefined, datatype: string, shape: readonly number[]): string[] | null {
  const count = elements(shape);
  if (count > most) return null;
  if (!got) return Array(count).fill(filler(datatype).replace('0.0', '0'));
  if (datatype === 'BYTES') {
    const words = (got.data as Uint8Array[]).map((b) => (b.length <= 200 ? text(b) : null));
    return words.includes(null) ? null : words.map((w) => JSON.stringify(w));
  }
  const list: (number | bigint)[] = Array.from(got.data as ArrayLike<number | bigint>);
  if (list.some((v) => typeof v === 'number' && !Number.isFinite(v))) return null;
  return list.map((v) => (datatype === 'BOOL' ? String(Boolean(v)) : typeof v === 'number' && /^(FP32|FP16|BF16)$/.test(datatype) ? short(v) : String(v)));
}

/** The shortest decimal that is the same number of 32 bits. */
function short(v: number): string {
  for (let digits = 6; digits < 9; digits++) {
    const text = Number(v.toPrecision(digits));
    if (Math.fround(text) === v) return String(text);
  }
  return String(v);
}

/** A text as one word of a shell. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

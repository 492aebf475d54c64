import type { VersionDetail } from './api';
import type { Draft } from './draft';
import type { Tensor } from './tensor';

export type Snippet = { name: string; text: string };

const most = 48;

/** The same call for a terminal and two languages. Long values are left for the reader to fill in. */
export function snippets(base: string, detail: VersionDetail, drafts: readonly Draft[], live: boolean, sent: readonly Tensor[]): Snippet[] {
  const path = `/v2/models/${encodeURIComponent(detail.name)}${live ? '' : `/versions/${detail.version}`}/infer`;
  const media = whole(detail, drafts);
  if (media) return file(base + path, media, drafts[0]!.fileName || `my.${media.split('/')[1]}`, detail);
  return json(base + path, detail, sent);
}

/** The media type of a model whose one input is a file, which it takes as it is. */
function whole(detail: VersionDetail, drafts: readonly Draft[]): string {
  const only = detail.inputs.length === 1 && detail.inputs[0]!.datatype === 'BYTES' ? drafts[0] : undefined;
  if (only?.kind === 'picture') return only.file?.type || 'image/jpeg';
  if (only?.kind === 'sound') return only.file?.type || 'audio/wav';
  return '';
}

function file(url: string, media: string, name: string, detail: VersionDetail): Snippet[] {
  const outputs = detail.outputs.map((o) => o.name).join(', ');
  return [
    { name: 'curl', text: `curl --cacert edgewise-authority.pem ${quote(url)} \\\n  -H "Authorization: Bearer $EDGEWISE_KEY" \\\n  -H 'Content-Type: ${media}' \\\n  --data-binary @${quote(name)}` },
    { name: 'Python', text: `import json, os, ssl, urllib.request

request = urllib.request.Request(
    ${JSON.stringify(url)},
    data=open(${JSON.stringify(name)}, "rb").read(),
    headers={
        "Authorization": "Bearer " + os.environ["EDGEWISE_KEY"],
        "Content-Type": ${JSON.stringify(media)},
    },
)
trusted = ssl.create_default_context(cafile="edgewise-authority.pem")
with urllib.request.urlopen(request, context=trusted) as response:
    answer = json.load(response)
for output in answer["outputs"]:  # ${outputs}
    print(output["name"], output["shape"], output["data"][:10])` },
    { name: 'JavaScript', text: `// Node.js trusts the box with NODE_EXTRA_CA_CERTS=edgewise-authority.pem
import { readFile } from 'node:fs/promises';

const response = await fetch(${JSON.stringify(url)}, {
  method: 'POST',
  headers: {
    Authorization: \`Bearer \${process.env.EDGEWISE_KEY}\`,
    'Content-Type': ${JSON.stringify(media)},
  },
  body: await readFile(${JSON.stringify(name)}),
});
if (!response.ok) throw new Error((await response.json()).error);
const { outputs } = await response.json(); // ${outputs}
console.log(outputs);` },
  ];
}

function json(url: string, detail: VersionDetail, sent: readonly Tensor[]): Snippet[] {
  const inputs = detail.inputs.map((info) => {
    const got = sent.find((t) => t.name === info.name);
    const shape = got?.shape ?? (info.shape ?? [1]).map((n) => (n < 0 ? 1 : n));
    return { name: info.name, datatype: info.datatype, shape, data: values(got, info.datatype, shape) };
  });
  const complete = inputs.every((i) => i.data !== null);
  const body = JSON.stringify({ inputs: inputs.map((i) => ({ ...i, data: i.data ?? '…' })) });
  const data = complete ? body : body.replaceAll('"…"', '[ … ]');
  const make = inputs.map((i) => `    {"name": ${JSON.stringify(i.name)}, "datatype": "${i.datatype}", "shape": ${JSON.stringify(i.shape)}, "data": ${i.data ? JSON.stringify(i.data) : `[0.0] * ${i.shape.reduce((a, b) => a * b, 1)}`}},`).join('\n');
  const js = inputs.map((i) => `  { name: ${JSON.stringify(i.name)}, datatype: '${i.datatype}', shape: ${JSON.stringify(i.shape)}, data: ${i.data ? JSON.stringify(i.data) : `Array(${i.shape.reduce((a, b) => a * b, 1)}).fill(0)`} },`).join('\n');
  return [
    { name: 'curl', text: `curl --cacert edgewise-authority.pem ${quote(url)} \\\n  -H "Authorization: Bearer $EDGEWISE_KEY" \\\n  -d ${quote(data)}` },
    { name: 'Python', text: `import json, os, ssl, urllib.request

inputs = [
${make}
]
request = urllib.request.Request(
    ${JSON.stringify(url)},
    data=json.dumps({"inputs": inputs}).encode(),
    headers={"Authorization": "Bearer " + os.environ["EDGEWISE_KEY"]},
)
trusted = ssl.create_default_context(cafile="edgewise-authority.pem")
with urllib.request.urlopen(request, context=trusted) as response:
    print(json.load(response)["outputs"])` },
    { name: 'JavaScript', text: `// Node.js trusts the box with NODE_EXTRA_CA_CERTS=edgewise-authority.pem
const inputs = [
${js}
];
const response = await fetch(${JSON.stringify(url)}, {
  method: 'POST',
  headers: { Authorization: \`Bearer \${process.env.EDGEWISE_KEY}\` },
  body: JSON.stringify({ inputs }),
});
if (!response.ok) throw new Error((await response.json()).error);
console.log((await response.json()).outputs);` },
  ];
}

function values(got: Tensor | undefined, datatype: string, shape: readonly number[]): unknown[] | null {
  const count = shape.reduce((a, b) => a * b, 1);
  if (count > most) return null;
  if (!got) return Array(count).fill(datatype === 'BYTES' ? 'text' : datatype === 'BOOL' ? true : 0);
  if (datatype === 'BYTES') return (got.data as Uint8Array[]).every((b) => b.length <= 200) ? (got.data as Uint8Array[]).map((b) => new TextDecoder().decode(b)) : null;
  return Array.from(got.data as Float32Array, (v) => (datatype === 'BOOL' ? Boolean(v) : Number(v)));
}

/** A text as one word of a shell. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

import type { VersionDetail } from './api';
import { declared, decoupled } from './backends';
import type { Draft } from './draft';
import { base64, elements, encode, text, type Tensor } from './tensor';

export type Snippet = { name: string; text: string };

const most = 48;

/** Where the box is: `grpc` is HOST:PORT, empty where there is no gRPC. */
export type Address = { base: string; grpc: string; keyed: boolean };
type Way = Address & { secure: boolean };
/** An input as JSON has it; `data` is null for values that are too long for a line, in whose place there is a filler. */
type Input = { name: string; datatype: string; shape: readonly number[]; data: string[] | null; sent?: Tensor };
/** A call of a model; version '' is the live one. */
type Call = { way: Way; model: string; version: string; inputs: Input[]; url: string };

/** The same request for several languages. Each runs as it is; long values are zeros. */
export function snippets(at: Address, detail: VersionDetail, drafts: readonly Draft[], live: boolean, sent: readonly Tensor[]): Snippet[] {
  const version = live ? '' : String(detail.version);
  const streams = decoupled(detail);
  const url = `${at.base}/v2/models/${encodeURIComponent(detail.name)}${version ? `/versions/${version}` : ''}/${streams ? 'generate_stream' : 'infer'}`;
  const media = streams ? '' : whole(detail, drafts);
  const infos = detail.inputs.filter((info, i) => media || !(info.optional && drafts[i]?.skip));
  const call = { way: { ...at, secure: at.base.startsWith('https:') }, model: detail.name, version, url, inputs: infos.map((info) => input(info, sent)) };
  if (streams) return [...stream(call), ...(speaks(detail) && !version ? openai(call) : [])];
  if (media) return file(call, media, drafts[0]!.fileName || `my.${media.split('/')[1]}`, detail);
  return json(call);
}

function input(info: VersionDetail['inputs'][number], sent: readonly Tensor[]): Input {
  const got = sent.find((t) => t.name === info.name);
  const shape = got?.shape ?? (info.shape ?? [1]).map((n) => (n < 0 ? 1 : n));
  return { name: info.name, datatype: info.datatype, shape, data: values(got, info.datatype, shape), sent: got };
}

/** Whether the model answers OpenAI's requests. */
const speaks = (detail: VersionDetail) => declared(detail).parameters?.openai?.string_value === 'true';

/** The media type of a model whose only input is a file. */
function whole(detail: VersionDetail, drafts: readonly Draft[]): string {
  const only = detail.inputs.length === 1 && detail.inputs[0]!.datatype === 'BYTES' ? drafts[0] : undefined;
  if (only?.kind === 'picture') return only.file?.type || 'image/jpeg';
  if (only?.kind === 'sound') return only.file?.type || 'audio/wav';
  return '';
}

const authority = 'edgewise-ca.pem';

/** A command with a body on its standard input, which `parts` are put into; without parts the body is an argument. */
function piped(command: string[], body: string, parts: string[], argument: string, stdin: string): string {
  const lines = (last: string) => [...command, last].join(' \\\n  ');
  if (!parts.length) return lines(`${argument} ${quote(body)}`);
  return `printf ${quote(body)} ${parts.map((p) => `"$(${p})"`).join(' ')} |\n${lines(stdin)}`;
}

/** A text as the format of printf, whose parts stand where `hole` does. */
const format = (body: string) => body.replaceAll('\\', '\\\\').replaceAll('%', '%%').replaceAll(hole, '%s');
const hole = '\u0000';

/** Many times one value, between commas, as a command of a shell writes it. */
const many = (value: string, n: number) => `yes ${quote(value)} | head -n ${n} | paste -sd, -`;

function body(inputs: readonly Input[], value: (i: Input) => string): string {
  return `{"inputs":[${inputs.map((i) => `{"name":${JSON.stringify(i.name)},"datatype":"${i.datatype}","shape":${JSON.stringify(i.shape)},"data":[${i.data ? i.data.join(',') : value(i)}]}`).join(',')}]}`;
}

function curl({ way, url }: Call, ...rest: string[]): string[] {
  return [`curl ${way.secure ? `--cacert ${authority} ` : ''}${quote(url)}`, ...(way.keyed ? ['-H "Authorization: Bearer $EDGEWISE_KEY"'] : []), ...rest];
}

function curlJSON(call: Call, written = body, flags = ''): string {
  const long = call.inputs.filter((i) => !i.data);
  const text = written(call.inputs, () => hole);
  return piped(curl(call), long.length ? format(text) : text, long.map((i) => many(filler(i.datatype), elements(i.shape))), `${flags}-d`, `${flags}--data-binary @-`);
}

function python({ way, url }: Call, before: string, data: string, headers: string[], after: string[]): string {
  const all = [...(way.keyed ? ['"Authorization": "Bearer " + os.environ["EDGEWISE_KEY"]'] : []), ...headers];
  return `import json${way.keyed ? ', os' : ''}${way.secure ? ', ssl' : ''}, urllib.request

${before}request = urllib.request.Request(
    ${JSON.stringify(url)},
    data=${data},
    headers={${all.map((h) => `\n        ${h},`).join('')}${all.length ? '\n    ' : ''}},
)
${way.secure ? `trusted = ssl.create_default_context(cafile="${authority}")\n` : ''}with urllib.request.urlopen(request${way.secure ? ', context=trusted' : ''}) as response:
    ${after.join('\n    ')}`;
}

const dtypes: Record<string, string> = { BOOL: 'bool_', FP16: 'float16', FP32: 'float32', FP64: 'float64', BF16: 'float32', BYTES: 'object_' };
const dtype = (datatype: string) => `np.${dtypes[datatype] ?? datatype.toLowerCase()}`;

/** An array of NumPy with the values of an input. */
function array(i: Input): string {
  const shape = JSON.stringify(i.shape);
  if (!i.data) return i.datatype === 'BYTES' ? `np.full(${shape}, b"text", dtype=np.object_)` : `np.zeros(${shape}, dtype=${dtype(i.datatype)})`;
  const list = i.datatype === 'BYTES' ? `[s.encode() for s in ${literal(i.data)}]` : literal(i.data);
  return `np.array(${list}, dtype=${dtype(i.datatype)}).reshape(${shape})`;
}

const tritonInputs = (call: Call, arrays: string[]) => `inputs = [
${call.inputs.map((i) => `    triton.InferInput(${JSON.stringify(i.name)}, ${JSON.stringify(i.shape)}, "${i.datatype}"),`).join('\n')}
]
${arrays.map((a, n) => `inputs[${n}].set_data_from_numpy(${a})`).join('\n')}`;

/** Triton's client: its two modules are called the same way. */
function triton(call: Call, arrays: string[]): string {
  const { way } = call;
  const host = JSON.stringify(new URL(way.base).host);
  const tls = way.secure ? `, ssl=True, ssl_options={"ca_certs": "${authority}"}` : '';
  const options = [...(call.version ? [`model_version="${call.version}"`] : []), ...(way.keyed ? ['headers={"Authorization": "Bearer " + os.environ["EDGEWISE_KEY"]}'] : [])];
  return `${way.keyed ? 'import os\n\n' : ''}import numpy as np
import tritonclient.http as triton  # pip install 'tritonclient[http]'

client = triton.InferenceServerClient(${host}${tls})
${tritonInputs(call, arrays)}
result = client.infer(${[JSON.stringify(call.model), 'inputs', ...options].join(', ')})
for output in result.get_response()["outputs"]:
    print(output["name"], result.as_numpy(output["name"]))`;
}

function javascript({ way, url }: Call, before: string[], body: string, headers: string[], after: string[]): string {
  const all = [...(way.keyed ? ['Authorization: `Bearer ${process.env.EDGEWISE_KEY}`'] : []), ...headers];
  return [
    ...(way.secure ? [`// Node.js trusts the box with NODE_EXTRA_CA_CERTS=${authority}`] : []),
    ...before,
    `const response = await fetch(${JSON.stringify(url)}, {`,
    "  method: 'POST',",
    ...(all.length ? ['  headers: {', ...all.map((h) => `    ${h},`), '  },'] : []),
    `  body: ${body},`,
    '});',
    'if (!response.ok) throw new Error((await response.json()).error);',
    ...after,
  ].join('\n');
}

/** A string of C#, which has no line separators in it. */
const sharp = (s: string) => JSON.stringify(s).replaceAll(/[\u0085\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Sends content and writes the whole answer. */
const asText = (url: string) => [`var response = await client.PostAsync(${sharp(url)}, content);`, 'Console.WriteLine(await response.Content.ReadAsStringAsync());', 'response.EnsureSuccessStatusCode();'];

function csharp({ way, url }: Call, using: string[], content: string[], answer = asText(url)): string {
  return `${['System', ...using, 'System.Net.Http', 'System.Threading.Tasks'].map((u) => `using ${u};`).join('\n')}

class Program
{
${way.secure ? `    // .NET on Linux trusts the box with SSL_CERT_FILE=${authority}\n` : ''}    static void Main()
    {
        Run().GetAwaiter().GetResult();
    }

    static async Task Run()
    {
        using (var client = new HttpClient())
        {
${way.keyed ? '            client.DefaultRequestHeaders.Add("Authorization", "Bearer " + Environment.GetEnvironmentVariable("EDGEWISE_KEY"));\n' : ''}${content.map((c) => `            ${c}`).join('\n')}
${answer.map((c) => `            ${c}`).join('\n')}
        }
    }
}`;
}

function csharpJSON(call: Call, written = body, using: string[] = [], answer = asText(call.url)): string {
  const [first, ...rest] = written(call.inputs, () => hole).split(hole);
  const long = call.inputs.filter((i) => !i.data);
  const parts = rest.map((part, n) => ` + string.Join(",", Enumerable.Repeat(${sharp(filler(long[n]!.datatype))}, ${elements(long[n]!.shape)}))\n                + ${sharp(part)}`);
  return csharp(call, [...using, ...(long.length ? ['System.Linq', 'System.Text'] : ['System.Text'])], [`var body = ${sharp(first!)}${parts.join('')};`, 'var content = new StringContent(body, Encoding.UTF8, "application/json");'], answer);
}

const fields: Record<string, string> = { BOOL: 'bool', INT8: 'int', INT16: 'int', INT32: 'int', INT64: 'int64', UINT8: 'uint', UINT16: 'uint', UINT32: 'uint', UINT64: 'uint64', FP32: 'fp32', FP64: 'fp64', BYTES: 'bytes' };
const bytesOf = (s: string) => base64(new TextEncoder().encode(s));

/** The box describes its services to grpcurl by reflection. */
function grpc({ way, model, version, url }: Call, inputs: string, raw: string, parts: string[]): string {
  const text = `{"model_name":${JSON.stringify(model)},${version ? `"model_version":"${version}",` : ''}"inputs":[${inputs}]${raw}}`;
  const command = [`grpcurl ${way.secure ? `-cacert ${authority}` : '-plaintext'}`, ...(way.keyed ? ['-H "authorization: Bearer $EDGEWISE_KEY"'] : [])];
  const target = `${quote(way.grpc)} inference.GRPCInferenceService/${url.endsWith('_stream') ? 'ModelStreamInfer' : 'ModelInfer'}`;
  if (!parts.length) return [...command, `-d ${quote(text)}`, target].join(' \\\n  ');
  return piped([...command, '-d @'], format(text), parts, '', target);
}

function grpcTyped(call: Call): string {
  const head = (i: Input) => `"name":${JSON.stringify(i.name)},"datatype":"${i.datatype}","shape":${JSON.stringify(i.shape)}`;
  // Typed contents have no field for these: all inputs go as bytes then.
  if (call.inputs.some((i) => !fields[i.datatype])) {
    const long = call.inputs.filter((i) => !i.data);
    const raw = call.inputs.map((i) => `"${i.data ? base64(encode(i.sent ?? zeros(i))) : hole}"`);
    return grpc(call, call.inputs.map((i) => `{${head(i)}}`).join(','), `,"raw_input_contents":[${raw.join(',')}]`, long.map((i) => `head -c ${encode(zeros(i)).length} /dev/zero | base64 -w0`));
  }
  const data = (i: Input) => (i.data ? i.data.map((v) => (i.datatype === 'BYTES' ? `"${bytesOf(JSON.parse(v) as string)}"` : v)).join(',') : hole);
  const value = (i: Input) => (i.datatype === 'BYTES' ? `"${bytesOf('text')}"` : filler(i.datatype));
  return grpc(call, call.inputs.map((i) => `{${head(i)},"contents":{"${fields[i.datatype]}_contents":[${data(i)}]}}`).join(','), '', call.inputs.filter((i) => !i.data).map((i) => many(value(i), elements(i.shape))));
}

function zeros(i: Input): Tensor {
  const n = elements(i.shape);
  const data = i.datatype === 'BYTES' ? Array.from({ length: n }, () => new Uint8Array()) : i.datatype === 'INT64' ? new BigInt64Array(n) : i.datatype === 'UINT64' ? new BigUint64Array(n) : new Float32Array(n);
  return { name: i.name, datatype: i.datatype, shape: [...i.shape], data };
}

function file(call: Call, media: string, name: string, detail: VersionDetail): Snippet[] {
  const outputs = detail.outputs.map((o) => comment(o.name)).join(', ');
  const [only] = call.inputs as [Input];
  return named(call, [
    curl(call, `-H 'Content-Type: ${media}'`, `--data-binary @${quote(name)}`).join(' \\\n  '),
    python(call, '', `open(${JSON.stringify(name)}, "rb").read()`, [`"Content-Type": ${JSON.stringify(media)}`], ['answer = json.load(response)', `for output in answer["outputs"]:  # ${outputs}`, '    print(output["name"], output["shape"], output["data"][:10])']),
    triton(call, [`np.array([open(${JSON.stringify(name)}, "rb").read()], dtype=np.object_).reshape(${JSON.stringify(only.shape)})`]),
    javascript(call, ["import { readFile } from 'node:fs/promises';", ''], `await readFile(${JSON.stringify(name)})`, [`'Content-Type': ${JSON.stringify(media)}`], [`const { outputs } = await response.json(); // ${outputs}`, 'console.log(outputs);']),
    csharp(call, ['System.IO', 'System.Net.Http.Headers'], [`var content = new ByteArrayContent(File.ReadAllBytes(${sharp(name)}));`, `content.Headers.ContentType = new MediaTypeHeaderValue(${sharp(media)});`]),
    grpc(call, `{"name":${JSON.stringify(only.name)},"datatype":"BYTES","shape":${JSON.stringify(only.shape)},"contents":{"bytes_contents":["${hole}"]}}`, '', [`base64 -w0 ${quote(name)}`]),
  ]);
}

function json(call: Call): Snippet[] {
  const { inputs } = call;
  const make = inputs.map((i) => `    {"name": ${JSON.stringify(i.name)}, "datatype": "${i.datatype}", "shape": ${JSON.stringify(i.shape)}, "data": ${i.data ? literal(i.data) : `[${literal([filler(i.datatype)]).slice(1, -1)}] * ${elements(i.shape)}`}},`).join('\n');
  const js = inputs.map((i) => `  { name: ${JSON.stringify(i.name)}, datatype: '${i.datatype}', shape: ${JSON.stringify(i.shape)}, data: ${i.data ? `[${i.data.join(',')}]` : `Array(${elements(i.shape)}).fill(${filler(i.datatype)})`} },`).join('\n');
  // A number of JavaScript does not hold every whole one of 64 bits: such a body is written as it is.
  const exact = inputs.every((i) => !/INT64$/.test(i.datatype) || (i.data ?? []).every((v) => Number.isSafeInteger(Number(v))));
  return named(call, [
    curlJSON(call),
    python(call, `inputs = [\n${make}\n]\n`, 'json.dumps({"inputs": inputs}).encode()', [], ['print(json.load(response)["outputs"])']),
    triton(call, inputs.map(array)),
    javascript(call, exact ? ['const inputs = [', js, '];'] : [`const body = ${JSON.stringify(body(inputs, (i) => Array(elements(i.shape)).fill(filler(i.datatype)).join(',')))};`], exact ? 'JSON.stringify({ inputs })' : 'body', [], ['console.log((await response.json()).outputs);']),
    csharpJSON(call),
    grpcTyped(call),
  ]);
}

/** A request of the generate extension: values by name, whose shapes follow from the model. */
function flat(inputs: readonly Input[], value: (i: Input) => string): string {
  return `{${inputs.map((i) => `${JSON.stringify(i.name)}:${i.data?.length === 1 ? i.data[0] : `[${i.data ? i.data.join(',') : value(i)}]`}`).join(',')}}`;
}

/** Calls of a decoupled model: each response is used when it comes. */
function stream(call: Call): Snippet[] {
  const { inputs } = call;
  const one = (i: Input, list: string) => (i.data?.length === 1 ? list.slice(1, -1) : list);
  const make = inputs.map((i) => `    ${JSON.stringify(i.name)}: ${i.data ? one(i, literal(i.data)) : `[${literal([filler(i.datatype)]).slice(1, -1)}] * ${elements(i.shape)}`},`).join('\n');
  const js = flat(inputs, (i) => `...Array(${elements(i.shape)}).fill(${filler(i.datatype)})`);
  // A number of JavaScript does not hold every whole one of 64 bits: such a body is written as it is.
  const exact = inputs.every((i) => !/INT64$/.test(i.datatype) || (i.data ?? []).every((v) => Number.isSafeInteger(Number(v))));
  const snippets = named(call, [
    curlJSON(call, flat, '-N '),
    python(call, `inputs = {\n${make}\n}\n`, 'json.dumps(inputs).encode()', [], ['for line in response:', '    if line.startswith(b"data: "):', '        print(json.loads(line[6:]), flush=True)']),
    tritonStream(call),
    javascript(call, exact ? [`const inputs = ${js};`] : [`const body = ${JSON.stringify(flat(inputs, (i) => Array(elements(i.shape)).fill(filler(i.datatype)).join(',')))};`], exact ? 'JSON.stringify(inputs)' : 'body', [], [
      "let rest = '';",
      'for await (const text of response.body.pipeThrough(new TextDecoderStream())) {',
      "  const events = (rest + text).split('\\n\\n');",
      '  rest = events.pop();',
      "  for (const event of events) console.log(JSON.parse(event.slice('data: '.length)));",
      '}',
    ]),
    csharpJSON(call, flat, ['System.IO'], [
      `var request = new HttpRequestMessage(HttpMethod.Post, ${sharp(call.url)}) { Content = content };`,
      'using (var response = await client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead))',
      'using (var reader = new StreamReader(await response.Content.ReadAsStreamAsync()))',
      '{',
      '    string line;',
      '    while ((line = await reader.ReadLineAsync()) != null)',
      '        Console.WriteLine(line);',
      '    response.EnsureSuccessStatusCode();',
      '}',
    ]),
    grpcTyped(call),
  ]);
  return snippets.filter((s) => s.name !== 'tritonclient' || call.way.grpc);
}

/** Triton's client streams over gRPC alone. */
function tritonStream(call: Call): string {
  const { way } = call;
  const tls = way.secure ? `, ssl=True, root_certificates="${authority}"` : '';
  const key = way.keyed ? ', headers={"authorization": "Bearer " + os.environ["EDGEWISE_KEY"]}' : '';
  return `import${way.keyed ? ' os,' : ''} queue

import numpy as np
import tritonclient.grpc as triton  # pip install 'tritonclient[grpc]'

client = triton.InferenceServerClient(${JSON.stringify(way.grpc)}${tls})
${tritonInputs(call, call.inputs.map(array))}
responses = queue.Queue()
client.start_stream(lambda result, error: responses.put((result, error))${key})
client.async_stream_infer(${[JSON.stringify(call.model), 'inputs', ...(call.version ? [`model_version="${call.version}"`] : []), 'enable_empty_final_response=True'].join(', ')})
final = False
while not final:
    result, error = responses.get()
    if error:
        raise error
    response = result.get_response()
    final = response.parameters["triton_final_response"].bool_param
    for output in response.outputs:
        print(output.name, result.as_numpy(output.name), flush=True)
client.stop_stream()`;
}

/** What the page asks of a chat model when nothing was typed. */
const question = (call: Call) => call.inputs.find((i) => i.name === 'text_input')?.data?.[0] ?? '"text"';

/** Calls by OpenAI's clients: they need no more than another address. */
function openai(call: Call): Snippet[] {
  const { way, model } = call;
  const base = JSON.stringify(`${way.base}/v1`);
  const python = `import os

${way.secure ? 'import httpx\n' : ''}from openai import OpenAI  # pip install openai

client = OpenAI(
    base_url=${base},
    api_key=${way.keyed ? 'os.environ["EDGEWISE_KEY"]' : '"none"'},
${way.secure ? `    http_client=httpx.Client(verify="${authority}"),\n` : ''})
stream = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=[{"role": "user", "content": ${question(call)}}],
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)`;
  const javascript = `${way.secure ? `// Node.js trusts the box with NODE_EXTRA_CA_CERTS=${authority}\n` : ''}import OpenAI from 'openai'; // npm install openai

const client = new OpenAI({ baseURL: ${base}, apiKey: ${way.keyed ? 'process.env.EDGEWISE_KEY' : "'none'"} });
const stream = await client.chat.completions.create({
  model: ${JSON.stringify(model)},
  messages: [{ role: 'user', content: ${question(call)} }],
  stream: true,
});
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '');`;
  const text = `{"model":${JSON.stringify(model)},"messages":[{"role":"user","content":${question(call)}}],"stream":true}`;
  return [
    { name: 'OpenAI', text: way.keyed ? python : python.replace('import os\n\n', '') },
    { name: 'OpenAI, JavaScript', text: javascript },
    { name: 'OpenAI, curl', text: [...curl({ ...call, url: `${way.base}/v1/chat/completions` }, "-H 'Content-Type: application/json'"), `-N -d ${quote(text)}`].join(' \\\n  ') },
  ];
}

const named = (call: Call, texts: string[]): Snippet[] => ['curl', 'Python', 'tritonclient', 'JavaScript', 'C#', 'gRPC'].map((name, i) => ({ name, text: texts[i]! })).filter((s) => s.name !== 'gRPC' || call.way.grpc);

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

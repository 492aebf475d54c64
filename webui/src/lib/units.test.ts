import { describe, expect, it } from 'vitest';
import { messages } from '../compiler/compile';
import { described } from './describe';
import { gather, loose, rooted } from './drop';
import { draft, parse, tensor } from './draft';
import { addStep, complete, connect, connections, declaration, disconnect, empty, fresh, mismatch, moveStep, pruned, refusal, removeStep, steps, type Config, type Ports } from './ensemble';
import { appendLines } from '../compiler/sourcemap';
import { ago, bytes, duration, rate, shape, sizes, span } from './format';
import { draw, find, mostShown } from './graph';
import { readResources, warmup, writeResources, type ModelConfig } from './configuration';
import { choices, field, parameters, written } from './gallery';
import { boxes, inputKinds, isMasks, keyPoints, labelsOf, layout, probabilities, top, view, type Known, type View } from './guess';
import { found } from './find';
import { matches, merge } from './lines';
import { strength } from './password';
import { isolated } from './points';
import { spotOf, words } from './problems';
import { curl, operations } from './reference';
import { match } from './match';
import { quote, snippets } from './snippets';
import { depths } from './spans';
import { spread } from './spread';
import { tar } from './tar';
import { decode, encode, half, pack, toHalf, unfit, unpack, type Tensor } from './tensor';

const info = (name: string, datatype: string, dims: number[]) => ({ name, datatype, shape: dims });

describe('rates', () => {
  it.each([[0, '0'], [0.0048, '0.0048'], [0.015, '0.015'], [2.5, '2.5'], [1200, '1200']])('%f a second is %s', (n, text) => expect(rate(n).replace(',', '')).toBe(text));
});

describe('addresses', () => {
  it.each([
    ['/', '/', {}],
    ['/models/:name', '/models/cat', { name: 'cat' }],
    ['/models/:name', '/models/a%2Fb', { name: 'a/b' }],
    ['/models/:name', '/models', null],
    ['/models', '/models/', {}],
    ['/models/:name', '/models/%zz', null],
    ['/', '/models', null],
  ])('%s against %s', (pattern, path, want) => expect(match(pattern, path)).toEqual(want));
});

describe('calls for programs', () => {
  const detail = { name: 'm', version: 2, inputs: [{ name: 'x', datatype: 'BOOL', shape: [1, 2] }], outputs: [{ name: 'y', datatype: 'FP32', shape: [1] }], config: {} } as never;
  const text = (base: string, keyed: boolean) => snippets({ base, grpc: 'box:8001', keyed }, detail, [], false, [{ name: 'x', datatype: 'BOOL', shape: [1, 2], data: Uint8Array.of(1, 0) }]).map((s) => s.text);
  it('trust the box over TLS alone', () => {
    for (const call of text('https://box', true)) expect(call).toContain('edgewise-ca.pem');
    for (const call of text('http://127.0.0.1:8000', true)) expect(call).not.toMatch(/authority|ssl|cacert/);
  });
  it('carry a key where the box wants one', () => {
    for (const call of text('http://box', true)) expect(call).toContain('EDGEWISE_KEY');
    for (const call of text('http://box', false)) expect(call).not.toMatch(/EDGEWISE_KEY|Authorization/);
  });
  it('are written as each language writes', () => {
    const [curl, python, triton, javascript, csharp, grpc] = text('http://box', false);
    expect(curl).toBe(`curl http://box/v2/models/m/versions/2/infer \\\n  -d '{"inputs":[{"name":"x","datatype":"BOOL","shape":[1,2],"data":[true,false]}]}'`);
    expect(python).toContain('"data": [True,False]');
    expect(triton).toContain('np.array([True,False], dtype=np.bool_).reshape([1,2])');
    expect(javascript).toContain('data: [true,false]');
    expect(csharp).toContain('\\"data\\":[true,false]');
    expect(grpc).toContain('"contents":{"bool_contents":[true,false]}');
  });
  it('leave words as they are that read like values', () => {
    const words = { name: 'm', version: 1, inputs: [{ name: 'x', datatype: 'BYTES', shape: [2] }, { name: 'z', datatype: 'BOOL', shape: [1] }], outputs: [], config: {} } as never;
    const sent = [{ name: 'x', datatype: 'BYTES', shape: [2], data: ['true', "it's"].map((t) => new TextEncoder().encode(t)) }];
    const [curl, python] = snippets({ base: 'http://box', grpc: '', keyed: false }, words, [], true, sent).map((s) => s.text);
    expect(python).toContain('"data": ["true","it\'s"]');
    expect(curl).toContain(`"data":["true","it'\\''s"]`);
  });
  it('make long values where they run, and leave out gRPC where there is none', () => {
    const long = { name: 'm%', version: 1, inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 64] }, { name: 'h\\', datatype: 'FP16', shape: [49] }], outputs: [], config: {} } as never;
    const [curl, , triton, javascript, csharp, ...none] = snippets({ base: 'http://box', grpc: '', keyed: false }, long, [], true, []).map((s) => s.text);
    expect(curl).toBe(`printf '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,64],"data":[%s]},{"name":"h\\\\\\\\","datatype":"FP16","shape":[49],"data":[%s]}]}' "$(yes 0.0 | head -n 64 | paste -sd, -)" "$(yes 0.0 | head -n 49 | paste -sd, -)" |\ncurl http://box/v2/models/m%25/infer \\\n  --data-binary @-`);
    expect(triton).toContain('np.zeros([1,64], dtype=np.float32)');
    expect(javascript).toContain('Array(64).fill(0.0)');
    expect(csharp).toContain('string.Join(",", Enumerable.Repeat("0.0", 64))');
    expect(none).toEqual([]);
    const grpc = snippets({ base: 'http://box', grpc: 'box:8001', keyed: false }, long, [], true, []).at(-1)!.text;
    expect(grpc).toContain('"raw_input_contents":["%s","%s"]');
    expect(grpc).toContain('"$(head -c 256 /dev/zero | base64 -w0)" "$(head -c 98 /dev/zero | base64 -w0)" |\ngrpcurl -plaintext');
  });
  it('do not become programs that a model has written', () => {
    const named = 'boxes\nimport os; os.system("halt")\u2028process.exit()';
    const hostile = { name: 'm', version: 1, inputs: [{ name: 'image', datatype: 'BYTES', shape: [1] }], outputs: [{ name: named, datatype: 'FP32', shape: [1] }], config: {} } as never;
    const picture = { ...draft({ name: 'image', datatype: 'BYTES', shape: [1] } as never), kind: 'picture' as const, file: null, fileName: "it's $(halt).jpg" };
    const [curl, python, triton, javascript, csharp, grpc] = snippets({ base: 'http://box', grpc: 'box:8001', keyed: false }, hostile, [picture], true, []).map((s) => s.text);
    expect(curl).toContain(`--data-binary @'it'\\''s $(halt).jpg'`);
    expect(grpc).toContain(`"$(base64 -w0 'it'\\''s $(halt).jpg')"`);
    for (const call of [python, triton, javascript, csharp]) for (const line of call!.split(/[\n\u2028]/)) expect(line.trim()).not.toMatch(/^(import os;|process)/);
  });
});

describe('numbers for people', () => {
  it.each([[0, '0 B'], [1023, '1,023 B'], [1536, '1.5 KiB'], [5e9, '4.66 GiB']])('%d bytes', (n, want) => expect(bytes(n)).toBe(want));
  it.each([[null, '–'], [5, '5 µs'], [1500, '1.5 ms'], [2.5e6, '2.5 s'], [9e7, '2 min']])('%s microseconds', (n, want) => expect(duration(n)).toBe(want));
  it('says how long ago', () => expect(ago('2026-01-01T00:00:00Z', Date.parse('2026-01-01T03:10:00Z'))).toBe('3 hours ago'));
  it('says how long', () => expect([span(59), span(61), span(90000)]).toEqual(['59 seconds', '1 minute', '1 day']));
  it('writes shapes', () => expect([shape([1, -1]), shape(null), shape([])]).toEqual(['[1, ?]', 'any shape', '[]']));
});

describe('points of a chart', () => {
  it.each([
    [[null, 3, null, 4, 5, null], [1]],
    [[3], [0]],
    [[3, null, 0], [0, 2]],
    [[1, 2, 3], []],
    [[null, undefined], []],
  ])('%j: those without a neighbour are drawn as points', (values, want) => expect(isolated(values)).toEqual(want));
});

describe('tensors on the wire', () => {
  const all: Tensor[] = [
    { name: 'f', datatype: 'FP32', shape: [2], data: Float32Array.of(1.5, -2) },
    { name: 'h', datatype: 'FP16', shape: [3], data: Float32Array.of(0.5, -65504, 6e-8) },
    { name: 'l', datatype: 'INT64', shape: [1], data: BigInt64Array.of(-9007199254740993n) },
    { name: 't', datatype: 'BYTES', shape: [2], data: [new TextEncoder().encode('äh'), new Uint8Array()] },
    { name: 'b', datatype: 'BOOL', shape: [2], data: Uint8Array.of(1, 0) },
  ];
  it.each(all)('$datatype comes back as it went', (t) => {
    const got = decode(t.datatype, encode(t));
    if (t.datatype === 'FP16') Array.from(got as Float32Array).forEach((v, i) => expect(v).toBeCloseTo(Number((t.data as Float32Array)[i]), 3));
    else expect(got).toEqual(t.data);
  });
  it('packs a head and the blocks behind it', () => {
    const { body, head } = pack(all);
    expect(JSON.parse(new TextDecoder().decode(body.subarray(0, head))).inputs.map((i: { parameters: { binary_data_size: number } }) => i.parameters.binary_data_size)).toEqual([8, 6, 8, 11, 2]);
    expect(body.length).toBe(head + 35);
  });
  it('reads answers in JSON and in binary', () => {
    const json = new TextEncoder().encode(JSON.stringify({ outputs: [{ name: 'y', datatype: 'FP32', shape: [1], parameters: { binary_data_size: 4 } }] }));
    const body = new Uint8Array([...json, ...new Uint8Array(Float32Array.of(7).buffer)]);
    expect(unpack(body, json.length).outputs[0]!.data).toEqual(Float32Array.of(7));
    expect(unpack(new TextEncoder().encode('{"outputs":[{"name":"y","datatype":"INT32","shape":[2],"data":[1,2]}]}'), 0).outputs[0]!.data).toEqual(Int32Array.of(1, 2));
  });
  it('rounds to half precision and back', () => {
    for (const v of [0, 1, -2, 0.1, 65504, 1e6, NaN]) {
      const back = half(toHalf(v));
      if (Number.isNaN(v)) expect(back).toBeNaN();
      else if (v === 1e6) expect(back).toBe(Infinity);
      else expect(Math.abs(back - v)).toBeLessThanOrEqual(Math.abs(v) / 1024);
    }
  });
  it('says why a shape does not fit', () => expect([unfit(info('x', 'FP32', [-1, 3]), [5, 3]), unfit(info('x', 'FP32', [-1, 3]), [5, 4]), unfit(info('x', 'FP32', [2]), [1, 2])]).toEqual(['', 'wants 3 in dimension 2, not 4', 'wants 1 dimensions, not 2']));
});

describe('forms', () => {
  it.each([
    ['[[1, 2], [3, 4]]', [1, 2, 3, 4], [2, 2]],
    ['1, 2; 3', [1, 2, 3], null],
    ['[1, 2]', [1, 2], null],
    ['[true, false]', [1, 0], null],
  ])('%s', (text, values, dims) => expect(parse(info('x', 'FP32', [-1]), text)).toEqual({ values, shape: dims }));
  it.each(['[1, [2]]', '[1, "a"]', '1, x', '[1,'])('refuses %s', (text) => expect(() => parse(info('x', 'FP32', [-1]), text)).toThrow(/x/));
  it('fills the open dimension of a flat list', async () => expect((await tensor(info('x', 'FP32', [-1, 2]), { ...draft(info('x', 'FP32', [-1, 2])), text: '1, 2, 3, 4' }))!.shape).toEqual([2, 2]));
  it('refuses a wrong count at the input', async () => await expect(tensor(info('x', 'FP32', [3]), { ...draft(info('x', 'FP32', [3])), text: '1, 2' })).rejects.toThrow(/x: 2 numbers/));
  it('leaves an optional input out', async () => expect(await tensor({ ...info('x', 'FP32', [3]), optional: true }, { ...draft(info('x', 'FP32', [3])), skip: true })).toBeNull());
});

describe('what an input is', () => {
  it.each([
    [info('image', 'BYTES', [1]), 'picture'],
    [info('wav', 'BYTES', [1]), 'sound'],
    [info('question', 'BYTES', [-1]), 'text'],
    [info('x', 'FP32', [1, 3, 224, 224]), 'pixels'],
    [info('x', 'UINT8', [-1, -1, 3]), 'pixels'],
    [info('samples', 'FP32', [-1]), 'samples'],
    [info('x', 'FP32', [-1, 4]), 'numbers'],
  ])('$name $datatype $shape', (t, want) => expect(inputKinds(t)[0]).toBe(want));
  it('finds the sides of a picture', () => {
    expect(layout(info('x', 'FP32', [1, 256, 128, 3]))).toEqual({ channels: 3, height: 256, width: 128, first: false, rank: 4 });
    expect(layout(info('x', 'FP32', [-1, 1, -1, -1]))).toEqual({ channels: 1, height: -1, width: -1, first: true, rank: 4 });
    expect(layout(info('x', 'FP32', [1, 512, 16]))).toBeNull();
  });
});

describe('what an output is', () => {
  const t = (datatype: string, dims: number[], data: Tensor['data'] = new Float32Array(dims.reduce((a, b) => a * b, 1))): Tensor => ({ name: 'y', datatype, shape: dims, data });
  it.each([
    [t('FP32', [3, 4]), true, 'boxes'], [t('FP32', [3, 4]), false, 'numbers'], [t('FP32', [1, 1000], Float32Array.from({ length: 1000 }, (_, i) => i % 7 - 3)), false, 'classes'], [t('FP32', [3], Float32Array.of(0.2, 0.7, 0.1)), false, 'classes'], [t('FP32', [2], Float32Array.of(0.93, 3.9)), false, 'numbers'], [t('FP32', [1, 198], new Float32Array(198).fill(0.5)), false, 'numbers'], [{ ...t('FP32', [2], Float32Array.of(3, 9)), name: 'logits' }, false, 'classes'],
    [t('BYTES', [2], []), true, 'text'], [t('FP32', [1, 1, 64, 64]), false, 'picture'], [t('FP32', [2, 4, 2]), true, 'boxes'], [t('FP32', [1, 8, 3]), false, 'numbers'],
  ])('%o', (tensor, picture, want) => expect(view(tensor, picture)).toBe(want));
  it('makes probabilities once', () => {
    expect(probabilities([0.25, 0.75])).toEqual([0.25, 0.75]);
    expect(probabilities([1000, 1000])).toEqual([0.5, 0.5]);
  });
  it('names the highest first', () => expect(top([0.1, 0.7, 0.2], ['a', '', 'c'], 2)).toEqual([{ index: 1, label: 'class 1', value: 0.7 }, { index: 2, label: 'c', value: 0.2 }]));
  it('places boxes in parts of the picture, in every form', () => {
    const at = (values: number[], form: Parameters<typeof boxes>[3]) => boxes(t('FP32', [1, 4], Float32Array.from(values)), [], { width: 100, height: 50 }, form)[0]!.points[0];
    expect(at([10, 5, 30, 25], 'x1 y1 x2 y2')).toEqual([0.1, 0.1]);
    expect(at([5, 10, 25, 30], 'y1 x1 y2 x2')).toEqual([0.1, 0.1]);
    expect(at([20, 15, 20, 20], 'centre and size')).toEqual([0.1, 0.1]);
    expect(at([0.5, 0.25, 1, 1], 'x1 y1 x2 y2')).toEqual([0.5, 0.25]);
  });
  it('says what other outputs say of a box', () => {
    const found = boxes(t('FP32', [2, 4], Float32Array.from([0, 0, 9, 9, 1, 1, 9, 9])), [{ name: 'score', datatype: 'FP32', shape: [2], data: Float32Array.of(0.5, 0.25) }, { name: 'label', datatype: 'BYTES', shape: [2], data: [new TextEncoder().encode('cat'), new TextEncoder().encode('<b>')] }], { width: 10, height: 10 }, 'x1 y1 x2 y2');
    expect(found.map((b) => [b.score, b.text])).toEqual([[0.5, 'cat'], [0.25, '<b>']]);
  });
  const bytes = (list: string[]) => list.map((x) => new TextEncoder().encode(x));
  const out = (name: string, datatype: string, shape: number[], data?: Tensor['data']): Tensor => ({ ...t(datatype, shape, data), name });
  /** What each kind of head answers, alone or behind its steps, and how its first output is drawn beside a picture. */
  it.each<[string, Tensor[], View, Known?]>([
    ['four logits of a classifier', [out('scores', 'FP32', [1, 4], Float32Array.of(3, 1, 0, -9))], 'numbers'],
    ['four logits of what is known as a classifier', [out('y', 'FP32', [1, 4], Float32Array.of(3, 1, 0, -9))], 'classes', { task: 'image classification', names: [] }],
    ['four probabilities', [out('y', 'FP32', [1, 4], Float32Array.of(0.7, 0.1, 0.1, 0.1))], 'classes'],
    ['four logits by name', [out('logits', 'FP32', [1, 4])], 'classes'],
    ['four logits for each of three pictures', [out('logits', 'FP32', [3, 4])], 'numbers'],
    ['the four likeliest classes', [out('probability', 'FP32', [1, 4], Float32Array.of(0.6, 0.2, 0.1, 0.1)), out('label', 'BYTES', [1, 4], bytes(['a', 'b', 'c', 'd']))], 'ranked'],
    ['the likeliest class', [out('probability', 'FP32', [1, 1]), out('label', 'BYTES', [1, 1], bytes(['a']))], 'ranked'],
    ['a thousand logits', [out('y', 'FP32', [1, 1000], Float32Array.from({ length: 1000 }, (_, i) => i % 7 - 3))], 'classes'],
    ['one box with its score', [out('y', 'FP32', [1, 4]), out('score', 'FP32', [1])], 'boxes'],
    ['one box by name', [out('box', 'FP32', [1, 4])], 'boxes'],
    ['no box', [out('box', 'FP32', [0, 4])], 'boxes'],
    ['boxes of a batch', [out('boxes', 'FP32', [1, 10, 4])], 'boxes'],
    ['one turned box', [out('quad', 'FP32', [1, 4, 2])], 'boxes'],
    ['masks', [out('mask', 'UINT8', [2, 20, 20])], 'boxes'],
    ['a YOLO head', [out('output0', 'FP32', [1, 84, 8400], new Float32Array(84 * 8400))], 'picture'],
    ['a vector', [out('embedding', 'FP32', [1, 512], new Float32Array(512).fill(-1))], 'numbers'],
    ['a vector without a word', [out('y', 'FP32', [1, 512], new Float32Array(512).fill(-1))], 'numbers'],
    ['a vector that is known', [out('class_token', 'FP32', [1, 768], new Float32Array(768))], 'numbers', { task: 'an embedding of pictures', names: [] }],
    ['silence', [out('audio', 'FP32', [1, 24000], new Float32Array(24000))], 'wave'],
    ['sound', [out('audio', 'FP32', [1, 1000], Float32Array.from({ length: 1000 }, (_, i) => Math.sin(i / 9)))], 'wave'],
    ['kinds of sounds', [out('audio_class', 'FP32', [1, 1000], Float32Array.from({ length: 1000 }, (_, i) => i % 7 - 3))], 'classes'],
    ['text', [out('text', 'BYTES', [2], bytes(['a', 'b']))], 'text'],
  ])('draws %s as it should be', (_, outputs, want, known) => expect(view(outputs[0]!, true, outputs, known)).toBe(want));
  it('finds the labels of bars', () => {
    const label = out('label', 'BYTES', [1, 2], bytes(['a', 'b']));
    expect(labelsOf(out('probability', 'FP32', [1, 2]), [label])).toBe(label);
    expect(labelsOf(out('score', 'FP32', [2]), [out('label', 'BYTES', [2], bytes(['a', 'b']))])).toBeUndefined();
  });
  it('draws key points that the model is sure of', () => {
    expect(keyPoints(out('point', 'FP32', [1, 2, 3], Float32Array.of(10, 20, 0.9, 1, 2, 0.1)), 0, { width: 100, height: 100 })).toEqual([[0.1, 0.2]]);
    expect(keyPoints(out('point', 'FP32', [2, 1, 2], Float32Array.of(1, 2, 50, 50)), 1, { width: 100, height: 100 })).toEqual([[0.5, 0.5]]);
    expect(isMasks(out('mask', 'UINT8', [2, 20, 20]))).toBe(true);
  });
  it('counts what is not finite', () => expect(spread([1, NaN, 3, Infinity], 2)).toEqual({ least: 1, most: 3, mean: 2, finite: 2, strange: 2, bins: [1, 1] }));
});

describe('parameters of steps', () => {
  const list = parameters({ 'parameter.score': 'default "0.25": the least score, 0 to 1', 'parameter.labels': 'default "": one label a line', 'parameter.fit': 'default "crop": one of crop, stretch. crop: the middle', 'parameter.mean': 'default "1,2,3": of each channel, 0 to 255', 'tensor.x': 'no parameter', description: 'none' });
  it('are read from what a step says of itself', () => expect(list.map((p) => [p.name, field(p), p.default])).toEqual([['labels', 'lines', ''], ['score', 'share', '0.25'], ['fit', 'choice', 'crop'], ['mean', 'text', '1,2,3']]));
  it('offer the words that they may be', () => expect(choices(list[2]!)).toEqual(['crop', 'stretch']));
  it('stand in the configuration where they are set', () => expect(written({ labels: 'a\nb', score: '' })).toEqual({ labels: { string_value: 'a\nb' } }));
});

describe('warm-up requests', () => {
  const config = { max_batch_size: 4, input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [3, -1] }] } as unknown as ModelConfig;
  it('have an input of a known shape for each of the model', () => {
    expect(warmup('w', config, false)).toEqual({ name: 'w', batch_size: 4, count: 1, inputs: { x: { data_type: 'TYPE_FP32', dims: [3, 1], zero_data: true } } });
    expect(warmup('w', { ...config, max_batch_size: -1 }, true)).toMatchObject({ batch_size: 1, inputs: { x: { random_data: true } } });
  });
});

describe('ensembles', () => {
  it('are declared without what is empty', () => {
    const written = { platform: 'ensemble', max_batch_size: 0, input: [{ name: 'x', data_type: 'TYPE_STRING', dims: [1] }], output: [], ensemble_scheduling: { step: [{ model_name: 'm', model_version: -1, input_map: { a: 'x' }, output_map: {} }] } };
    expect(declaration({ ...written, name: 'e', parameters: null, batch_input: null, input: [{ ...written.input[0], format: '', is_shape_tensor: false }] })).toEqual(written);
  });

  const ports: Record<string, Ports> = {
    cut: { inputs: [info('image', 'BYTES', [1])], outputs: [info('tensor', 'FP32', [1, -1, -1, 3]), info('size', 'INT32', [2])] },
    see: { inputs: [info('x', 'FP32', [1, 256, 256, 3])], outputs: [info('y', 'FP32', [1, 10])] },
  };
  const look = (c: Config) => (i: number) => ports[steps(c)[i]?.model_name ?? ''];
  const two = () => addStep(addStep(empty(), 'cut'), 'see');
  const whole = () => {
    let c = two();
    c = connect(c, { step: -1, port: fresh }, { step: 0, port: 'image' }, look(c));
    c = connect(c, { step: 0, port: 'tensor' }, { step: 1, port: 'x' }, look(c));
    return connect(c, { step: 1, port: 'y' }, { step: -1, port: fresh }, look(c));
  };
  it('becomes a configuration by connecting', () => {
    const c = whole();
    expect(c.input).toEqual([{ name: 'image', data_type: 'TYPE_STRING', dims: [1] }]);
    expect(c.output).toEqual([{ name: 'y', data_type: 'TYPE_FP32', dims: [1, 10] }]);
    expect(steps(c)[1]).toMatchObject({ input_map: { x: 'tensor' }, output_map: { y: 'y' } });
    expect(connections(c)).toHaveLength(3);
  });
  it('refuses what does not fit, with the reason', () => {
    const c = two();
    expect(refusal(c, { step: 0, port: 'size' }, { step: 1, port: 'x' }, look(c))).toBe('“x” wants FP32, and “size” is INT32');
    expect(mismatch(info('a', 'FP32', [1, 3]), info('b', 'FP32', [1, 4]))).toBe('“b” wants 4 in dimension 2, and “a” has 3');
    expect(mismatch(info('a', 'FP32', [3]), info('b', 'FP32', [1, 3]))).toContain('2 dimensions');
  });
  it('refuses circles', () => {
    const c = connect(two(), { step: 0, port: 'tensor' }, { step: 1, port: 'x' }, look(two()));
    expect(refusal(c, { step: 1, port: 'y' }, { step: 0, port: 'image' }, look(c))).toContain('circle');
    expect(refusal(c, { step: 0, port: 'size' }, { step: 0, port: 'image' }, look(c))).toContain('circle');
  });
  it('takes away with a step what hung on it', () => {
    const c = removeStep(whole(), 0);
    expect(steps(c)).toHaveLength(1);
    expect(steps(c)[0]!.input_map).toEqual({});
    expect(removeStep(whole(), 1).output).toEqual([]);
  });
  it('moves and disconnects', () => {
    expect(steps(moveStep(whole(), 0, 1)).map((s) => s.model_name)).toEqual(['see', 'cut']);
    expect(steps(moveStep(whole(), 0, -5)).map((s) => s.model_name)).toEqual(['cut', 'see']);
    expect(connections(disconnect(whole(), { step: 1, port: 'x' }))).toHaveLength(2);
  });
  it('keeps what it does not know, but for what the box pinned', () => {
    const c = complete({ platform: 'ensemble', parameters: { a: 1 }, ensemble_scheduling: { max_inflight_requests: 3, step: [{ model_name: 'see', fan_out: { input: ['x'] }, pinned: { version: 1 } }] } });
    expect(c).toMatchObject({ parameters: { a: 1 }, input: [], ensemble_scheduling: { max_inflight_requests: 3, step: [{ model_name: 'see', model_version: -1, fan_out: { input: ['x'] } }] } });
    expect(steps(c)[0]).not.toHaveProperty('pinned');
  });
});

describe('the editor of ensembles', () => {
  const step = (model_name: string, input_map: Record<string, string>, output_map: Record<string, string>, more = {}) => ({ model_name, model_version: -1, input_map, output_map, ...more });
  const chain = complete({ input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [4] }], output: [{ name: 'y', data_type: 'TYPE_FP32', dims: [4] }], ensemble_scheduling: { step: [step('a', { x: 'x' }, { y: 't', z: 'u' }), step('b', { x: 't' }, { y: 'y' })] } });
  it('forgets names that nothing reads, but for those of conditions', () => {
    expect(steps(pruned(chain)).map((s) => s.output_map)).toEqual([{ y: 't' }, { y: 'y' }]);
    const kept = complete({ ...chain, ensemble_scheduling: { step: [steps(chain)[0]!, { ...steps(chain)[1]!, condition: { tensor: 'u' } }] } });
    expect(pruned(kept)).toBe(kept);
  });
  it('finds by words, the name itself first', () => {
    expect(found(['face_input', 'my face', 'face', 'other'], 'Face', (n) => n, (n) => (n === 'other' ? 'a face' : ''))).toEqual(['face', 'face_input', 'my face', 'other']);
    expect(found(['b', 'a'], ' ', (n) => n, () => '')).toEqual(['b', 'a']);
  });
  it.each([
    [{ text: "in ensemble 'E', step 1 (model 'b'): input 'x' of the model is missing in input_map", step: 1, input: 'x', code: 'input_missing', names: ['x'] }, 'Input “x” is not connected.', { node: 's1', port: 'x' }],
    [{ text: "in ensemble 'E', step 1 (model 'b'): fan_out: input is empty", step: 1 }, 'Fan_out: input is empty', { node: 's1' }],
    [{ text: "in ensemble 'E', max_batch_size is 4, but step 0 (model 'a') takes at most 2", step: 0 }, 'Max_batch_size is 4, but 1. a takes at most 2', { node: 's0' }],
    [{ text: '', code: 'types_differ', names: ['t', 'FP32', 'INT64'], step: 1, tensor: 't', input: 'x', output: 'y' }, '“t” is made as FP32 but read as INT64.', { node: 's1', edge: 's0.y>s1.x', port: 'x' }],
    [{ text: '', code: 'ensemble_output' }, 'The ensemble has no output.', { node: 'out' }],
    [{ text: 'config.json: line 3', step: 9 }, 'Config.json: line 3', { node: 'in' }],
  ] as const)('says what is wrong and where: %j', (problem, text, spot) => {
    expect(words(problem as never)).toBe(text);
    expect(spotOf(chain, problem as never)).toMatchObject(spot);
  });
});

describe('the graph of a network', () => {
  const node = (i: number, name: string) => ({ name, op: 'Conv', inputs: [i ? 't' + (i - 1) : 'x'], outputs: ['t' + i] });
  const graph = (n: number, name: (i: number) => string) => ({ kind: 'onnx' as const, inputs: [info('x', 'FP32', [1])], outputs: [info('t' + (n - 1), 'FP32', [1])], nodes: Array.from({ length: n }, (_, i) => node(i, name(i))), truncated: false });
  it('draws a small one whole', () => expect(draw(graph(10, () => ''), new Set()).shown).toHaveLength(12));
  it('groups a large one by names and opens groups', () => {
    const g = graph(mostShown + 100, (i) => `/m/layer${i % 4}/conv`);
    expect(draw(g, new Set()).shown.map((s) => s.group).filter(Boolean)).toEqual(['m']);
    expect(draw(g, new Set(['m'])).shown.filter((s) => s.group)).toHaveLength(4);
  });
  it('groups neighbours where names say nothing', () => expect(draw(graph(6000, () => ''), new Set()).shown.length).toBeLessThanOrEqual(mostShown));
  it('finds by kind, name and tensor', () => expect(find(graph(3, (i) => 'n' + i), 't1')).toEqual([1, 2]));
});

describe('what happened', () => {
  const line = (number: number, level = 'info' as const, message = 'm') => ({ number, time: '', level, message, fields: [{ key: 'model', value: 'cat' }] });
  it('keeps each line once and in order', () => expect(merge([line(1), line(3)], [line(3), line(2), line(4)]).map((l) => l.number)).toEqual([1, 2, 3, 4]));
  it('forgets the oldest', () => expect(merge([line(1), line(2)], [line(3)], 2).map((l) => l.number)).toEqual([2, 3]));
  it('filters by level and text', () => expect([matches(line(1), 'warn', ''), matches(line(1), 'info', 'CAT'), matches(line(1), 'debug', 'dog')]).toEqual([false, true, false]));
  it('puts spans into a tree, whatever their order', () => {
    const s = (name: string, start_us: number, parent?: number) => ({ name, start_us, duration_us: 1, ...(parent === undefined ? {} : { parent }) });
    expect(depths([s('root', 0), s('late', 9, 0), s('early', 1, 0), s('inner', 2, 2)]).map((x) => `${x.depth}${x.span.name}`)).toEqual(['0root', '1early', '2inner', '1late']);
    expect(depths([s('self', 0, 0)])).toHaveLength(1);
  });
});

describe('small things', () => {
  it.each([['short', 0], ['aaaaaaaaaaaaaa', 1], ['abcdefghijklmno', 1], ['amber kettle orbit sandwich', 4], ['correct horse battery staple', 1], ['Correct-Horse-Battery-Staple!', 1], ['Password2026!', 1], ['edgewise admin', 1], ['the admin of nine lighthouses', 4]])('a password: %s', (p, least) => expect(strength(p, 12).score).toBe(least));
  it('reads numbers of bytes as sizes, and leaves names and other numbers', () => {
    expect(sizes('file "run 2024.onnx" has 9437184 bytes: at most 8388608 are allowed')).toBe('file "run 2024.onnx" has 9 MiB: at most 8 MiB are allowed');
    expect(sizes("it shares the machine's memory: 2048 more bytes of 'a 4096'")).toBe("it shares the machine's memory: 2 KiB more of 'a 4096'");
    expect(['1000000 rows', '12 bytes', `4096 bytes, sha256 ${'12345678'.repeat(8)}`].map(sizes)).toEqual(['1000000 rows', '12 bytes', `4 KiB, sha256 ${'12345678'.repeat(8)}`]);
  });
  it('quotes for a shell', () => expect([quote('a/b.c'), quote("it's")]).toEqual(['a/b.c', `'it'\\''s'`]));
  it('reads what a step says of itself', () => {
    expect(described('const d = `{"name": "s", "inputs": [], "outputs": []}`; fail(`${1} {`)')).toEqual({ name: 's', inputs: [], outputs: [], parameters: [] });
    expect(described('no description')).toBeNull();
  });
  it('reads what the compiler says', () => {
    const text = "ERROR TS2322: Type '~lib/string/String' is not assignable to type 'i32'.\n    :\n 9 │ let m: i32 = \"text\";\n   │              ~~~~~~\n   └─ in step.ts(9,14)\n";
    expect(messages(text)).toEqual([{ severity: 'error', line: 9, column: 14, length: 6, text: "Type '~lib/string/String' is not assignable to type 'i32'." }]);
  });
  it('gives a module the lines of its source map', () => {
    const module = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 1, 0, 10, 5, 1, 3, 0, 0, 0x0b]); // the code begins at 13
    const of = (mappings: string) => [...appendLines(module, JSON.stringify({ sources: ['a.ts', 'step.ts'], mappings }))].slice(module.length);
    const made = of('cCEA,CACA,CADA,CAAA'); // lines 3, 4, 3 and 3 again, at 14 and behind it
    expect(made.slice(0, 2)).toEqual([0, made.length - 2]);
    expect(new TextDecoder().decode(new Uint8Array(made))).toContain('edgewise.lines\x02\x04a.ts\x07step.ts\x03');
    expect(made.slice(-9)).toEqual([1, 1, 3, 1, 1, 4, 1, 1, 3]);
    expect(of('IAAA,oBAAA').at(-1)).toBe(0); // before and behind the code
  });
  it('makes an archive that tar reads: sizes, sums and ends', async () => {
    const bytes = new Uint8Array(await tar([{ path: 'm/1/model.onnx', file: new Blob(['hello']) }]).arrayBuffer());
    expect(bytes.length).toBe(512 + 512 + 1024);
    const text = (from: number, length: number) => new TextDecoder().decode(bytes.subarray(from, from + length)).replace(/\0.*$/s, '');
    expect([text(0, 100), text(124, 12), text(257, 6), text(512, 5)]).toEqual(['m/1/model.onnx', '00000000005', 'ustar', 'hello']);
    const sum = bytes.subarray(0, 512).reduce((a, b, i) => a + (i >= 148 && i < 156 ? 32 : b), 0);
    expect(parseInt(text(148, 6), 8)).toBe(sum);
  });
  it('keeps the name of a folder that is one model', () => {
    const file = new Blob();
    const paths = (list: string[]) => rooted('cat', list.map((path) => ({ path, file }))).map((e) => e.path);
    expect(paths(['1/model.onnx', 'config.pbtxt'])).toEqual(['cat/1/model.onnx', 'cat/config.pbtxt']);
    expect(paths(['a/1/model.onnx', 'b/1/model.onnx'])).toEqual(['a/1/model.onnx', 'b/1/model.onnx']);
  });
  it('makes one model of an .onnx file and what belongs to it', async () => {
    const file = (name: string, text = 'x') => new File([text], name);
    const { parcels } = await loose(['net.onnx', 'net.onnx.data', 'config.pbtxt'].map((name) => file(name)));
    expect(parcels.map((p) => [p.name, p.what])).toEqual([['net.tar', 'folder']]);
    const text = await parcels[0]!.blob.text();
    for (const path of ['net/model.onnx', 'net/net.onnx.data', 'net/config.pbtxt']) expect(text).toContain(path);
    const some = await loose([file('net.onnx'), file('net.b.onnx', 'reads w.0 and weights.bin'), file('weights.bin'), file('net.b.onnx_data'), file('step.wasm'), file('other.bin'), file('labels.txt'), file('void.onnx', '')]);
    expect(some.parcels.map((p) => p.name)).toEqual(['net.onnx', 'net.b.tar', 'step.wasm']);
    expect(some.refused.map((r) => r.split(' ')[0])).toEqual(['other.bin', 'labels.txt', 'The']);
  });
  it('makes one model of a Python file that is one, its configuration and its helpers', async () => {
    const file = (name: string, text = 'x') => new File([text], name);
    const program = 'class TritonPythonModel:\n    pass\n';
    const { parcels, refused } = await loose([file('serve.py', program), file('helper.py'), file('config.pbtxt', 'backend: "python"\nname: "adder"\ninput [ { name: "X" } ]')]);
    expect([parcels.map((p) => [p.name, p.what]), refused]).toEqual([[['adder.tar', 'folder']], []]);
    const text = await parcels[0]!.blob.text();
    for (const path of ['adder/model.py', 'adder/helper.py', 'adder/config.pbtxt']) expect(text).toContain(path);
    const some = await loose([file('train.py'), file('one.py', program), file('net.pt'), file('chat.GGUF'), file('net.tflite')]);
    expect(some.parcels.map((p) => p.name)).toEqual(['one.py', 'net.pt', 'chat.GGUF', 'net.tflite']);
    expect(some.refused.map((r) => r.split(' ')[0])).toEqual(['train.py']);
    const unnamed = await loose([file('one.py', program), file('config.pbtxt', 'input [ { name: "X" } ] # name: "no"')]);
    expect(unnamed.parcels.map((p) => p.name)).toEqual(['one.tar']);
  });
  it('makes one model of the files of a backend that the box has', async () => {
    const file = (name: string) => new File(['x'], name);
    expect((await loose([file('net.xml'), file('net.bin')])).parcels).toEqual([]);
    const { parcels, refused } = await loose([file('net.xml'), file('net.bin'), file('photo.jpg')], ['.xml']);
    expect(parcels.map((p) => [p.name, p.what])).toEqual([['net.tar', 'folder']]);
    expect(refused.map((r) => r.split(' ')[0])).toEqual(['photo.jpg']);
    const text = await parcels[0]!.blob.text();
    for (const path of ['net/model.xml', 'net/model.bin']) expect(text).toContain(path);
    expect((await loose([file('a.xml')], ['.xml'])).parcels.map((p) => [p.name, p.what])).toEqual([['a.xml', 'file']]);
  });
  it('finds the name of a file at the border of what it reads of a network', async () => {
    const network = new File(['x'.repeat((1 << 20) - 4), 'weights.bin'], 'net.onnx');
    expect((await loose([network, new File(['x'], 'weights.bin')])).refused).toEqual([]);
  });
  it('refuses a folder or a path by itself, and takes exported networks out of their folder', async () => {
    const entries = (...paths: string[]) => paths.map((path) => ({ path, file: new File(['x'], path.split('/').at(-1)!) }));
    const all = await gather([], new Map([
      ['empty', entries('.hidden')], ['repository', entries('cat/1/model.onnx')], ['cat', entries('model.onnx', 'photo.jpg')],
      ['exports', entries('a.onnx', 'b.onnx', 'train.py', 'runs/1/loss.csv')], ['deep', entries('x'.repeat(200))],
    ]));
    expect(all.parcels.map((p) => p.name)).toEqual(['repository.tar', 'cat.tar', 'a.onnx', 'b.onnx']);
    expect(all.refused.map((r) => /empty|train\.py|too long/.exec(r)?.[0])).toEqual(['empty', 'train.py', 'too long']);
  });
  it('refuses paths that no archive holds', () => expect(() => tar([{ path: 'x'.repeat(200), file: new Blob() }])).toThrow(/too long/));
  it('reads resources as it writes them', () => {
    const text = 'camera:1, bus:2:global';
    expect(writeResources(readResources(text))).toBe(text);
    expect(readResources('camera, bus:x a:b:1 line:3:local c:4')).toEqual([{ name: 'c', count: 4, global: false }]);
  });
  it('reads the reference out of a document', () => {
    const list = operations({ paths: { '/a/{id}': { parameters: [{ $ref: '#/components/parameters/id' }], post: { operationId: 'f', summary: 's', tags: ['t'], 'x-right': 'admin', requestBody: { content: { 'application/json': { schema: { type: 'object', required: ['n'], properties: { n: { type: 'integer' }, o: { type: 'array', items: { type: 'string' } } } } } } }, responses: { '200': { description: 'fine' } } } } }, components: { parameters: { id: { name: 'id', in: 'path', required: true, schema: { type: 'string' } } } } }, '/api/v1');
    expect(list[0]).toMatchObject({ method: 'POST', path: '/api/v1/a/{id}', right: 'admin', schema: '{\n  n: integer\n  o?: [string]\n}', parameters: [{ name: 'id', required: true }] });
    expect(curl('https://box', list[0]!)).toContain('-X POST "https://box/api/v1/a/$ID"');
  });
});

import { describe, expect, it } from 'vitest';
import { draft, parse, renewed, tensor } from './draft';
import { bytes, duration, element, precise, span } from './format';
import { boxes, probabilities } from './guess';
import { snippets } from './snippets';
import { spread } from './spread';
import { decode, encode, numbers, toBrain, toHalf, type Tensor } from './tensor';

const info = (name: string, datatype: string, dims: number[]) => ({ name, datatype, shape: dims });
const typed = (datatype: string, text: string, dims = [-1]) => tensor(info('x', datatype, dims), { ...draft(info('x', datatype, dims)), fill: 'typed', text });

describe('numbers of 16 bits', () => {
  it.each([
    ['a tie goes to the even one, down', 1 + 2 ** -8, 0x3f80], ['a tie goes to the even one, up', 1 + 3 * 2 ** -8, 0x3f82], ['the nearest', 1.0078, 0x3f81],
    ['the sign', -1 - 2 ** -7, 0xbf81], ['what is too large', 3.4e38, 0x7f80], ['infinity', -Infinity, 0xff80], ['no number', NaN, 0x7fc0],
  ])('BF16: %s', (_, value, bits) => expect(toBrain(value)).toBe(bits));
  it('stay what they are as BF16', () => {
    for (let bits = 0; bits < 0x7f80; bits += 7) expect(toBrain(decode('BF16', Uint8Array.of(bits & 255, bits >> 8))[0] as number)).toBe(bits);
  });
  it.each([
    ['a tie goes to the even one, down', 1 + 2 ** -11, 0x3c00], ['a tie goes to the even one, up', 1 + 3 * 2 ** -11, 0x3c02],
    ['half of the least goes to nothing', 2 ** -25, 0], ['a tie among the small', 3 * 2 ** -25, 2], ['up to the next power', 2 - 2 ** -12, 0x4000], ['what is too large', 65520, 0x7c00],
  ])('FP16: %s', (_, value, bits) => expect(toHalf(value)).toBe(bits));
});

describe('what is typed', () => {
  it.each([
    ['INT64', '9007199254740993, -9223372036854775808', [9007199254740993n, -9223372036854775808n]],
    ['UINT64', '[18446744073709551615]', [18446744073709551615n]],
    ['INT64', '[[9007199254740993], [1]]', [9007199254740993n, 1n]],
    ['BOOL', 'true, False, 1', [1, 0, 1]],
    ['FP32', 'nan, -inf, Infinity', [NaN, -Infinity, Infinity]],
  ])('%s keeps %s', async (datatype, text, want) => expect([...(await typed(datatype, text, text.startsWith('[[') ? [-1, 1] : [-1]))!.data as unknown as number[]]).toEqual(want));
  it.each([
    ['UINT8', '300', 'x: 300 does not fit into UINT8, which goes from 0 to 255.'], ['UINT8', '-1', /does not fit/], ['INT32', '1.5', /not a whole number/],
    ['INT64', '9223372036854775808', /does not fit into INT64/], ['BOOL', '2', /does not fit into BOOL/], ['FP16', '70000', /more than FP16 holds/], ['FP32', '1e39', /more than FP32 holds/],
    ['INT64', 'nan', /not a whole number/], ['FP64', '1e400', /“1e400” is not a number/], ['FP32', '["12345678901234567"]', /is not a number/],
  ])('%s does not become another number: %s', async (datatype, text, why) => await expect(typed(datatype, text)).rejects.toThrow(why));
  it('makes one text of each line for an input of several elements', async () => {
    const two = await typed('BYTES', 'a\nb', [2]);
    expect([two!.shape, two!.data.length]).toEqual([[2], 2]);
    expect((await typed('BYTES', 'a\nb\nc\nd', [-1, 2]))!.shape).toEqual([2, 2]);
    await expect(typed('BYTES', 'a', [2])).rejects.toThrow('x expects 2 texts, one a line, not 1.');
  });
  it('is asked for again when the input has become another, and its file stays', () => {
    const old = { ...draft(info('x', 'FP32', [4])), fileName: 'a.bin', text: '1, 2, 3, 4' };
    expect(renewed(info('x', 'FP32', [4]), old)).toBe(old);
    expect(renewed(info('x', 'FP32', [3]), old)).toMatchObject({ shape: '3', text: '0, 0, 0', fileName: 'a.bin' });
    expect(renewed(info('x', 'BYTES', [1]), old).kind).toBe('text');
  });
  it('reads a list of one dimension in JSON', () => expect(parse(info('x', 'INT64', [-1]), '[1, 9007199254740993]').values).toEqual([1, 9007199254740993n]));
});

describe('what is shown', () => {
  it('whole numbers of 64 bits as they are', () => {
    const s = spread(BigInt64Array.of(9007199254740993n, -5n));
    expect([s.least, s.most, element(s.most)]).toEqual([-5n, 9007199254740993n, '9007199254740993']);
  });
  it('that nothing is finite, instead of a least of 0', () => expect(spread([NaN, Infinity])).toMatchObject({ finite: 0, strange: 2 }));
  it('the spread of the largest numbers', () => expect(spread([-1.7e308, 0, 1.7e308], 2)).toMatchObject({ least: -1.7e308, most: 1.7e308, bins: [1, 2] }));
  it.each([[NaN, 'NaN'], [-Infinity, '-Infinity'], [0.30000001192092896, '0.3000'], [1e-7, '1.000e-7'], [3, '3']])('%s', (v, want) => expect(element(v)).toBe(want));
  it('shares of scores that are not finite', () => {
    expect(probabilities([1, Infinity])).toEqual([0, 1]);
    const some = probabilities([NaN, 0, 0]);
    expect(some).toEqual([0, 0.5, 0.5]);
  });
  it('boxes by the hundred thousand', () => {
    const rows = 100_000;
    expect(boxes({ name: 'b', datatype: 'FP32', shape: [rows, 4], data: new Float32Array(4 * rows).fill(2) }, [], { width: 4, height: 4 }, 'x1 y1 x2 y2')).toHaveLength(rows);
  });
  it('units that do not round to a thousand of themselves', () => expect([bytes(1048575), duration(999.9), duration(999_900), bytes(1023)]).toEqual(['1 MiB', '1 ms', '1 s', '1,023 B']));
  it('one second, and no part of one', () => expect([span(1), span(59.9), span(0)]).toEqual(['1 second', '59 seconds', '0 seconds']));
  it('the day of a time that is not of today', () => {
    const now = new Date(2026, 4, 3, 12);
    expect(precise(new Date(2026, 4, 3, 1, 2, 3, 4).toISOString(), now)).toBe('01:02:03.004');
    expect(precise(new Date(2026, 4, 2, 1, 2, 3, 4).toISOString(), now)).toMatch(/2.*01:02:03\.004$/);
  });
});

describe('calls with such values', () => {
  const detail = (datatype: string, count: number) => ({ name: 'm', version: 1, inputs: [info('x', datatype, [count])], outputs: [], config: {} }) as never;
  const calls = (datatype: string, data: Tensor['data'], count = data.length) => snippets({ base: 'http://box', grpc: 'box:8001', keyed: false }, detail(datatype, count), [], true, [{ name: 'x', datatype, shape: [count], data }]).map((s) => s.text);
  it('hold whole numbers of 64 bits exactly', () => {
    for (const call of calls('INT64', BigInt64Array.of(9007199254740993n))) expect(call).toContain('9007199254740993');
    expect(calls('INT64', BigInt64Array.of(9007199254740993n))[3]).toContain(String.raw`\"data\":[9007199254740993]`);
  });
  it('hold numbers of 32 bits as they were typed', () => expect(calls('FP32', Float32Array.of(0.1, 2))[0]).toContain('"data":[0.1,2]'));
  it('leave out what JSON has no word for', () => {
    for (const call of [...calls('FP32', Float32Array.of(NaN)), ...calls('BYTES', [Uint8Array.of(0xff, 0xfe)])]) expect(call).not.toMatch(/null|NaN|\ufffd/);
  });
  it('stand for long values with ones of their type', () => {
    const [, python, , javascript] = calls('BYTES', [new Uint8Array(1000)]);
    expect(python).toContain('"data": ["text"] * 1');
    expect(javascript).toContain('Array(1).fill("text")');
    expect(calls('INT32', new Int32Array(100))[1]).toContain('[0] * 100');
  });
  it('follow the responses of a decoupled model', () => {
    const one = { name: 'm', version: 2, inputs: [info('text_input', 'BYTES', [1])], outputs: [], config: { model_transaction_policy: { decoupled: true }, parameters: { openai: { string_value: 'true' } } } } as never;
    const sent = [{ name: 'text_input', datatype: 'BYTES', shape: [1], data: [new TextEncoder().encode('it\'s "x"')] }];
    const by = Object.fromEntries(snippets({ base: 'https://box', grpc: 'box:8001', keyed: true }, one, [], true, sent).map((s) => [s.name, s.text]));
    expect(Object.keys(by)).toEqual(['curl', 'Python', 'tritonclient', 'JavaScript', 'C#', 'gRPC', 'OpenAI', 'OpenAI, JavaScript', 'OpenAI, curl']);
    expect(by.curl).toContain(`-d '${JSON.stringify({ text_input: 'it\'s "x"' }).replaceAll("'", "'\\''")}'`);
    for (const name of ['curl', 'Python', 'JavaScript', 'C#']) expect(by[name]).toContain('https://box/v2/models/m/generate_stream');
    expect(by.gRPC).toContain('/ModelStreamInfer');
    expect(by.OpenAI).toContain(`"content": ${JSON.stringify('it\'s "x"')}`);
    expect(snippets({ base: 'https://box', grpc: '', keyed: true }, one, [], false, sent).map((s) => s.name)).toEqual(['curl', 'Python', 'JavaScript', 'C#']);
  });
  it('leave out an optional input that the reader left out', () => {
    const two = { name: 'm', version: 1, inputs: [info('x', 'FP32', [1]), { ...info('o', 'FP32', [1]), optional: true }], outputs: [], config: {} } as never;
    const drafts = [draft(info('x', 'FP32', [1])), { ...draft(info('o', 'FP32', [1])), skip: true }];
    expect(snippets({ base: 'http://box', grpc: '', keyed: false }, two, drafts, true, [])[0]!.text).not.toContain('"o"');
  });
});

it('numbers beyond a double travel whole', () => expect(decode('UINT64', encode({ name: 'x', datatype: 'UINT64', shape: [1], data: numbers('UINT64', [2n ** 64n - 1n]) }))).toEqual(BigUint64Array.of(2n ** 64n - 1n)));

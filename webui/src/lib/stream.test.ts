import { describe, expect, it } from 'vitest';
import { events, flat } from './stream';

const bytes = (text: string) => new TextEncoder().encode(text);

describe('a stream', () => {
  it('reads events however they are cut', async () => {
    const whole = bytes('data: {"a":"ü"}\n\n: nothing\n\ndata: {"b":1}\n\n');
    for (let cut = 0; cut <= whole.length; cut++) {
      const body = new ReadableStream<Uint8Array>({ start(c) { c.enqueue(whole.slice(0, cut)); c.enqueue(whole.slice(cut)); c.close(); } });
      const got: string[] = [];
      for await (const e of events(body)) got.push(e);
      expect(got).toEqual(['{"a":"ü"}', '{"b":1}']);
    }
  });
  it('is asked for with lists by name', () => {
    const inputs = [
      { name: 'T', datatype: 'BYTES', shape: [1], data: [bytes('say "hi"')] },
      { name: 'N', datatype: 'INT64', shape: [2], data: new BigInt64Array([9007199254740993n, -1n]) },
      { name: 'B', datatype: 'BOOL', shape: [1], data: new Uint8Array([1]) },
    ];
    expect(flat(inputs, 'x')).toBe('{"id":"x","T":["say \\"hi\\""],"N":[9007199254740993,-1],"B":[true]}');
  });
});

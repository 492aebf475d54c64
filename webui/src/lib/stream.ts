import { send, type Schemas } from './api';
import { msg } from './language.svelte';
import { text, type Tensor } from './tensor';

/** One response of a stream: its outputs by name, or an error, after which others may follow. */
export type Piece = { version: string; outputs: Record<string, unknown>; error: string };

/** A request of the generate extension: flat lists by name, whose shapes follow from the model. */
export function flat(inputs: readonly Tensor[], id: string): string {
  const lists = inputs.map((t) => `${JSON.stringify(t.name)}:[${Array.from(t.data as ArrayLike<unknown>, (v) => (v instanceof Uint8Array ? worded(t.name, v) : t.datatype === 'BOOL' ? String(v === 1) : String(v))).join(',')}]`);
  return `{${[`"id":${JSON.stringify(id)}`, ...lists].join(',')}}`;
}

function worded(name: string, bytes: Uint8Array): string {
  const found = text(bytes);
  if (found === null) throw new Error(msg.backends.noText(name));
  return JSON.stringify(found);
}

/** Runs a model and yields its responses as they come; version 0 is the live version. Ending the loop, or the signal, ends the model. */
export async function* stream(model: string, version: number, inputs: readonly Tensor[], id: string, signal: AbortSignal): AsyncGenerator<Piece> {
  const path = `/v2/models/${encodeURIComponent(model)}${version ? `/versions/${version}` : ''}/generate_stream`;
  const response = await send(path, { method: 'POST', body: new TextEncoder().encode(flat(inputs, id)), signal, headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' } });
  for await (const event of events(response.body!)) {
    const { model_name: _, model_version, id: __, error, ...outputs } = JSON.parse(event) as Record<string, unknown> & Partial<Schemas['Error']>;
    yield { version: String(model_version ?? ''), outputs, error: typeof error === 'string' ? error : '' };
  }
}

/** The data of server-sent events, each on one line. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + decoder.decode(value, { stream: true })).split('\n\n');
      rest = parts.pop()!;
      for (const part of parts) if (part.startsWith('data: ')) yield part.slice('data: '.length);
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

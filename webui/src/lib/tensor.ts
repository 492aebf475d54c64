import { Failure, send, type TensorInfo } from './api';
import { msg } from './language.svelte';

/** A dense, row-major tensor of numbers, or of byte strings for BYTES. */
export type Tensor = { name: string; datatype: string; shape: number[]; data: Numbers | Uint8Array[] };
export type Numbers = Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

const kinds = {
  BOOL: Uint8Array, UINT8: Uint8Array, UINT16: Uint16Array, UINT32: Uint32Array, UINT64: BigUint64Array,
  INT8: Int8Array, INT16: Int16Array, INT32: Int32Array, INT64: BigInt64Array, FP32: Float32Array, FP64: Float64Array,
} as const;

export function elements(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** Decodes the numbers of a tensor; 16-bit floats become 32-bit floats. */
export function decode(datatype: string, bytes: Uint8Array): Numbers | Uint8Array[] {
  const own = bytes.slice();
  if (datatype === 'BYTES') return texts(own);
  if (datatype === 'FP16') return Float32Array.from(new Uint16Array(own.buffer), half);
  if (datatype === 'BF16') return Float32Array.from(new Uint16Array(own.buffer), brain);
  const kind = kinds[datatype as keyof typeof kinds];
  if (!kind) throw new Error(msg.tensors.thereNoWayShow(datatype));
  return new kind(own.buffer) as Numbers;
}

function texts(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer);
  const list: Uint8Array[] = [];
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = view.getUint32(at, true);
    list.push(bytes.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return list;
}

export function half(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const scratch = new DataView(new ArrayBuffer(4));
function brain(bits: number): number {
  scratch.setUint32(0, bits << 16);
  return scratch.getFloat32(0);
}

/** Rounds a positive number to the nearest integer, ties to even, as IEEE 754. */
function even(value: number): number {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

/** The 16 bits of BF16 nearest to a number. */
export function toBrain(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  return Number.isNaN(value) ? 0x7fc0 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** The 16 bits of FP16 nearest to a number. */
export function toHalf(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 255) - 112;
  const fraction = bits & 0x7fffff;
  if (Number.isNaN(value)) return sign | 0x7e00;
  if (exponent >= 31) return sign | 0x7c00;
  if (exponent <= 0) return sign | (exponent < -10 ? 0 : even((fraction | 0x800000) / 2 ** (14 - exponent)));
  return sign | ((exponent << 10) + even(fraction / 8192));
}

/** The binary form of a tensor. */
export function encode(tensor: Tensor): Uint8Array<ArrayBuffer> {
  if (tensor.datatype === 'BYTES') return framed(tensor.data as Uint8Array[]);
  const data = tensor.data as Numbers;
  if (tensor.datatype === 'FP16') return new Uint8Array(Uint16Array.from(data as Float32Array, toHalf).buffer);
  if (tensor.datatype === 'BF16') return new Uint8Array(Uint16Array.from(data as Float32Array, toBrain).buffer);
  return new Uint8Array(data.slice().buffer as ArrayBuffer);
}

function framed(list: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(list.reduce((a, b) => a + 4 + b.length, 0));
  const view = new DataView(out.buffer);
  let at = 0;
  for (const item of list) {
    view.setUint32(at, item.length, true);
    out.set(item, at + 4);
    at += 4 + item.length;
  }
  return out;
}

/** Converts numbers to the type of a tensor. */
export function numbers(datatype: string, values: readonly (number | bigint)[]): Numbers {
  const large = (v: number | bigint) => (typeof v === 'bigint' ? v : BigInt(Math.trunc(v)));
  if (datatype === 'INT64') return BigInt64Array.from(values, large);
  if (datatype === 'UINT64') return BigUint64Array.from(values, large);
  const kind = datatype === 'FP16' || datatype === 'BF16' ? Float32Array : kinds[datatype as keyof typeof kinds];
  if (!kind) throw new Error(msg.tensors.thereNoWayMakeNumbers(datatype));
  return (kind as Float32ArrayConstructor).from(values as number[], Number) as Numbers;
}

/** The least and the greatest whole number of a type. */
function bounds(datatype: string): [bigint, bigint] | null {
  if (datatype === 'BOOL') return [0n, 1n];
  const found = /^(U?)INT(8|16|32|64)$/.exec(datatype);
  if (!found) return null;
  const size = BigInt(found[2]!);
  return found[1] ? [0n, 2n ** size - 1n] : [-(2n ** (size - 1n)), 2n ** (size - 1n) - 1n];
}

const rounded: Record<string, (v: number) => number> = { FP16: (v) => half(toHalf(v)), BF16: (v) => brain(toBrain(v)), FP32: Math.fround };

/** Why a type cannot hold a number exactly; empty when it can. */
export function misfit(datatype: string, value: number | bigint): string {
  const range = bounds(datatype);
  if (!range) return Number.isFinite(Number(value)) && !Number.isFinite((rounded[datatype] ?? Number)(Number(value))) ? msg.tensors.moreThanHolds(value, datatype) : '';
  if (typeof value === 'number' && !Number.isInteger(value)) return msg.tensors.notWholeNumberAsWants(value, datatype);
  return value < range[0] || value > range[1] ? msg.tensors.doesNotFitInto(value, datatype, range[0], range[1]) : '';
}

/** An inference response. */
export type Answer = { model: string; version: string; outputs: Tensor[]; milliseconds: number; parameters: Record<string, unknown> };

/** A request in the v2 protocol's binary form, with an id by which it is found again. */
export function pack(inputs: Tensor[], id = '', parameters?: Record<string, unknown>): { body: Uint8Array<ArrayBuffer>; head: number } {
  const blocks = inputs.map(encode);
  const json = JSON.stringify({
    ...(id ? { id } : {}),
    inputs: inputs.map((t, i) => ({ name: t.name, datatype: t.datatype, shape: t.shape, parameters: { binary_data_size: blocks[i]!.length } })),
    parameters: { ...parameters, binary_data_output: true },
  });
  const head = new TextEncoder().encode(json);
  const body = new Uint8Array(head.length + blocks.reduce((a, b) => a + b.length, 0));
  body.set(head);
  let at = head.length;
  for (const b of blocks) {
    body.set(b, at);
    at += b.length;
  }
  return { body, head: head.length };
}

type Output = { name: string; datatype: string; shape: number[]; data?: unknown[]; parameters?: { binary_data_size?: number } };

/** Reads a response; the JSON has a length when binary tensors follow it. */
export function unpack(bytes: Uint8Array, head: number): { meta: Record<string, unknown>; outputs: Tensor[] } {
  const meta = JSON.parse(new TextDecoder().decode(bytes.subarray(0, head || bytes.length)));
  return { meta, outputs: tensorsOf(meta.outputs, bytes, head) };
}

function tensorsOf(list: Output[], bytes: Uint8Array, head: number): Tensor[] {
  let at = head;
  return list.map((o): Tensor => {
    const size = o.parameters?.binary_data_size;
    if (size === undefined) return { ...o, data: fromJSON(o) };
    const block = bytes.subarray(at, at + size);
    at += size;
    return { name: o.name, datatype: o.datatype, shape: o.shape, data: decode(o.datatype, block) };
  });
}

/** Reads the tensors of an answer in JSON. */
export const outputsOf = (answer: Record<string, unknown>): Tensor[] => tensorsOf(answer.outputs as Output[], new Uint8Array(), 0);

/** Reads an example: docs/formats/example.md. */
export function example(bytes: Uint8Array): { inputs: Tensor[]; outputs: Tensor[] } {
  const end = bytes.indexOf(10) + 1;
  const text = (part: Uint8Array) => JSON.parse(new TextDecoder().decode(part));
  const { request, answer } = text(bytes.subarray(0, end)) as Record<'request' | 'answer', { json: number; all: number }>;
  const [asked, told] = [bytes.slice(end, end + request.all), bytes.slice(end + request.all, end + request.all + answer.all)];
  return { inputs: tensorsOf(text(asked.subarray(0, request.json)).inputs, asked, request.json), outputs: unpack(told, answer.json).outputs };
}

function fromJSON(o: Output): Tensor['data'] {
  const flat = (o.data ?? []).flat(Infinity);
  if (o.datatype === 'BYTES') return flat.map((v) => new TextEncoder().encode(String(v)));
  return numbers(o.datatype, flat.map(Number));
}

/** Runs a model; version 0 is the live version. */
export async function infer(model: string, version: number, inputs: Tensor[], id: string, signal?: AbortSignal): Promise<Answer> {
  const { body, head } = pack(inputs, id);
  const began = performance.now();
  const path = `/v2/models/${encodeURIComponent(model)}${version ? `/versions/${version}` : ''}/infer`;
  const response = await send(path, { method: 'POST', body, signal, headers: { 'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': String(head) } });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const milliseconds = performance.now() - began;
  const { meta, outputs } = unpack(bytes, Number(response.headers.get('Inference-Header-Content-Length') ?? 0));
  return { model: String(meta.model_name), version: String(meta.model_version), outputs, milliseconds, parameters: (meta.parameters ?? {}) as Record<string, unknown> };
}

/** Checks the shape of a tensor against a model; returns the reason when it does not fit. */
export function unfit(want: TensorInfo, got: readonly number[]): string {
  if (want.shape === null) return '';
  if (want.shape.length !== got.length) return msg.tensors.wantsDimensionsNot(want.shape.length, got.length);
  const at = want.shape.findIndex((d, i) => d >= 0 && d !== got[i]);
  return at < 0 ? '' : msg.tensors.wantsInDimensionNot(want.shape[at]!, at + 1, got[at]!);
}

/** Text of a BYTES element, null when it is not text. */
export function text(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The failure of a request at one of its inputs. */
export function atInput(thrown: Failure, inputs: readonly TensorInfo[]): string {
  return thrown.body.input ?? inputs.find((i) => thrown.message.includes(`"${i.name}"`) || thrown.message.includes(`'${i.name}'`))?.name ?? '';
}

/** Bytes for a JSON body. */
export function base64(data: Uint8Array): string {
  let text = '';
  for (let i = 0; i < data.length; i += 0x8000) text += String.fromCharCode(...data.subarray(i, i + 0x8000));
  return btoa(text);
}

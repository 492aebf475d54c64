import { Failure, type TensorInfo } from './api';
import { inputKinds, layout, type InputKind } from './guess';
import { decode, elements, misfit, numbers, type Tensor, unfit } from './tensor';
import { msg } from './language.svelte';

/** The entered value of one input. */
export type Draft = {
  kind: InputKind;
  file: Blob | null;
  fileName: string;
  text: string;
  /** The shape of a flat list or a raw file. */
  shape: string;
  fill: 'typed' | 'zeros' | 'random';
  range: (typeof ranges)[number];
  order: 'RGB' | 'BGR';
  fit: 'stretch' | 'letterbox';
  rate: number;
  skip: boolean;
  /** The data type and shape that the form was created for. */
  of: string;
};

const signature = (info: TensorInfo) => info.datatype + JSON.stringify(info.shape);

export const ranges = ['0..1', '0..255', '-1..1', 'imagenet'] as const;

/** An empty form for an input, as its signature suggests. */
export function draft(info: TensorInfo): Draft {
  const dims = (info.shape ?? [1]).map((d) => (d < 0 ? 1 : d));
  const small = info.datatype !== 'BYTES' && elements(dims) <= 64;
  return {
    kind: inputKinds(info)[0]!,
    file: null,
    fileName: '',
    text: small ? Array(elements(dims)).fill(info.datatype === 'BOOL' ? 1 : 0).join(', ') : '',
    shape: dims.join(', '),
    fill: small ? 'typed' : 'random',
    range: info.datatype === 'UINT8' ? '0..255' : '0..1',
    order: 'RGB',
    fit: 'stretch',
    rate: 16_000,
    skip: false,
    of: signature(info),
  };
}

/** The form for an input whose signature may have changed: values that still fit are kept. */
export function renewed(info: TensorInfo, old: Draft | undefined): Draft {
  if (!old) return draft(info);
  if (old.of === signature(info)) return old;
  return { ...draft(info), file: old.file, fileName: old.fileName };
}

/** An error of one input, shown beside it. */
export function wrong(info: TensorInfo, text: string): Failure {
  return new Failure(text, 0, { input: info.name });
}

/** Builds the tensor of an input; null for an optional input that was left out. */
export async function tensor(info: TensorInfo, d: Draft): Promise<Tensor | null> {
  if (d.skip && info.optional) return null;
  const made = await make(info, d);
  const reason = unfit(info, made.shape);
  if (reason) throw wrong(info, `${info.name} ${reason}.`);
  return made;
}

async function make(info: TensorInfo, d: Draft): Promise<Tensor> {
  if (info.datatype === 'BYTES') return texts(info, d);
  if (d.kind === 'pixels') return pixels(info, d);
  if (d.kind === 'samples') return samples(info, d);
  if (d.kind === 'file') return raw(info, d);
  return typed(info, d);
}

async function texts(info: TensorInfo, d: Draft): Promise<Tensor> {
  const dims = info.shape ?? [1];
  if (d.kind !== 'text') {
    if (!d.file) throw wrong(info, msg.tensors.chooseFileFor(info.name));
    return { name: info.name, datatype: 'BYTES', shape: dims.map((n) => (n < 0 ? 1 : n)), data: [new Uint8Array(await d.file.arrayBuffer())] };
  }
  const open = dims.some((n) => n < 0);
  const rest = dims.reduce((a, n) => (n < 0 ? a : a * n), 1);
  const lines = open || rest > 1 ? d.text.split('\n') : [d.text];
  if (open ? lines.length % rest !== 0 : lines.length !== rest) throw wrong(info, (open ? msg.tensors.expectsMultipleOfTexts : msg.tensors.expectsTexts)(info.name, rest, lines.length));
  const shape = dims.map((n, i) => (n < 0 ? (i === dims.lastIndexOf(-1) ? lines.length / rest : 1) : n));
  return { name: info.name, datatype: 'BYTES', shape, data: lines.map((l) => new TextEncoder().encode(l)) };
}

function typed(info: TensorInfo, d: Draft): Tensor {
  if (d.fill !== 'typed') {
    const shape = shapeOf(info, d);
    const n = elements(shape);
    return { name: info.name, datatype: info.datatype, shape, data: numbers(info.datatype, Array.from({ length: n }, () => (d.fill === 'zeros' ? 0 : whole(info.datatype) ? Math.floor(Math.random() * 2) : Math.random()))) };
  }
  const { values, shape } = parse(info, d.text);
  const found = shape ?? shapeFor(info, values.length, shapeOf(info, d));
  if (elements(found) !== values.length) throw wrong(info, msg.tensors.numbersDoNotFill(info.name, values.length, found.join(', '), elements(found)));
  for (const v of values) {
    const reason = misfit(info.datatype, v);
    if (reason) throw wrong(info, `${info.name}: ${reason}.`);
  }
  return { name: info.name, datatype: info.datatype, shape: found, data: numbers(info.datatype, values) };
}

const whole = (datatype: string) => !/^(FP|BF)/.test(datatype);

/** A flat list in a shape with one open dimension fills it. */
function shapeFor(info: TensorInfo, count: number, given: number[]): number[] {
  const dims = info.shape;
  if (!dims || elements(given) === count || dims.filter((n) => n < 0).length !== 1) return given;
  const rest = dims.reduce((a, n) => (n < 0 ? a : a * n), 1);
  return count % rest === 0 ? dims.map((n) => (n < 0 ? count / rest : n)) : given;
}

function shapeOf(info: TensorInfo, d: Draft): number[] {
  const list = d.shape.split(/[\s,x×]+/).filter(Boolean).map(Number);
  if (list.some((n) => !Number.isInteger(n) || n < 0)) throw wrong(info, msg.tensors.shapeMustWholeNumbers(info.name));
  if (elements(list) > 1 << 26) throw wrong(info, msg.tensors.shapeHasMoreElements(info.name));
  return list;
}

const named: Record<string, number> = { true: 1, false: 0, nan: NaN, inf: Infinity, infinity: Infinity, '-inf': -Infinity, '-infinity': -Infinity };

/** Types whose numbers may exceed a double. */
const large = /^U?INT64$/;

/** Parses a number, as a bigint where a double is not exact; null when it is not a number. */
function number(word: string, datatype: string): number | bigint | null {
  if (large.test(datatype) && /^-?\d{16,}$/.test(word)) return BigInt(word);
  const value = Number(word);
  return Number.isFinite(value) ? value : (named[word.toLowerCase()] ?? null);
}

/** Parses a list of numbers or JSON; nested lists have a shape. */
export function parse(info: TensorInfo, text: string): { values: (number | bigint)[]; shape: number[] | null } {
  const trimmed = text.trim();
  if (!trimmed.startsWith('[')) {
    const values = trimmed.split(/[\s,;]+/).filter(Boolean).map((word) => {
      const value = number(word, info.datatype);
      if (value === null) throw wrong(info, msg.tensors.notNumber(info.name, word));
      return value;
    });
    return { values, shape: null };
  }
  let tree: unknown;
  try {
    // A number with more digits than a double holds is quoted here and parsed as a bigint below.
    tree = JSON.parse(large.test(info.datatype) ? trimmed.replace(/(?<![\w.+-])-?\d{16,}(?![\d.eE])/g, '"$&"') : trimmed);
  } catch (cause) {
    throw wrong(info, msg.tensors.isNotJson(info.name, (cause as Error).message));
  }
  const shape: number[] = [];
  for (let level = tree; Array.isArray(level); level = level[0]) shape.push(level.length);
  const values = (tree as unknown[]).flat(Infinity).map((v) => (typeof v === 'boolean' ? Number(v) : typeof v === 'string' && large.test(info.datatype) && /^-?\d{16,}$/.test(v) ? BigInt(v) : v));
  const bad = values.find((v) => typeof v !== 'number' && typeof v !== 'bigint');
  if (bad !== undefined) throw wrong(info, msg.tensors.listHasNoNumber(info.name, JSON.stringify(bad)));
  if (!regular(tree, shape)) throw wrong(info, msg.tensors.listsHaveDifferentLengths(info.name));
  return { values: values as (number | bigint)[], shape: shape.length > 1 ? shape : null };
}

/** Whether nested lists have a regular shape. */
function regular(tree: unknown, shape: number[]): boolean {
  if (shape.length === 0) return !Array.isArray(tree);
  return Array.isArray(tree) && tree.length === shape[0] && tree.every((t) => regular(t, shape.slice(1)));
}

const sizes: Record<string, number> = { BOOL: 1, INT8: 1, UINT8: 1, INT16: 2, UINT16: 2, FP16: 2, BF16: 2, INT32: 4, UINT32: 4, FP32: 4, INT64: 8, UINT64: 8, FP64: 8 };

async function raw(info: TensorInfo, d: Draft): Promise<Tensor> {
  if (!d.file) throw wrong(info, msg.tensors.chooseFileFor(info.name));
  const bytes = new Uint8Array(await d.file.arrayBuffer());
  const count = bytes.length / (sizes[info.datatype] ?? 1);
  const shape = shapeFor(info, count, shapeOf(info, d));
  if (elements(shape) !== count) throw wrong(info, msg.tensors.fileHoldsNumbersShapeHolds(info.name, count, shape.join(', '), elements(shape)));
  return { name: info.name, datatype: info.datatype, shape, data: decode(info.datatype, bytes) as Tensor['data'] };
}

/** The picture at the size of the input, as numbers in its order. */
async function pixels(info: TensorInfo, d: Draft): Promise<Tensor> {
  const at = layout(info);
  if (!at) throw wrong(info, msg.tensors.doesNotLookLikePicture(info.name));
  if (!d.file) throw wrong(info, msg.tensors.choosePictureFor(info.name));
  const picture = await createImageBitmap(d.file).catch(() => { throw wrong(info, msg.tensors.browserCannotReadAsPicture(d.fileName || msg.tensors.thatFile)); });
  const h = at.height > 0 ? at.height : round32(picture.height);
  const w = at.width > 0 ? at.width : round32(picture.width);
  const rgba = drawn(picture, w, h, d.fit);
  const values = new Float32Array(h * w * at.channels);
  for (let i = 0; i < h * w; i++) {
    for (let c = 0; c < at.channels; c++) {
      const channel = d.order === 'BGR' && c < 3 && at.channels >= 3 ? 2 - c : c;
      const v = at.channels === 1 ? 0.299 * rgba[4 * i]! + 0.587 * rgba[4 * i + 1]! + 0.114 * rgba[4 * i + 2]! : rgba[4 * i + channel]!;
      values[at.first ? c * h * w + i : i * at.channels + c] = scaled(v, d.range, channel);
    }
  }
  const sides = at.first ? [at.channels, h, w] : [h, w, at.channels];
  const data = info.datatype === 'UINT8' ? Uint8Array.from(Uint8ClampedArray.from(values)) : values;
  return { name: info.name, datatype: info.datatype, shape: at.rank === 4 ? [1, ...sides] : sides, data };
}

const round32 = (n: number) => Math.max(32, Math.round(Math.min(n, 1280) / 32) * 32);
const means = [0.485, 0.456, 0.406, 0];
const deviations = [0.229, 0.224, 0.225, 1];

function scaled(v: number, range: Draft['range'], channel: number): number {
  switch (range) {
    case '0..255': return v;
    case '0..1': return v / 255;
    case '-1..1': return v / 127.5 - 1;
    default: return (v / 255 - means[channel]!) / deviations[channel]!;
  }
}

function drawn(picture: ImageBitmap, w: number, h: number, fit: Draft['fit']): Uint8ClampedArray {
  const canvas = new OffscreenCanvas(w, h);
  const context = canvas.getContext('2d', { willReadFrequently: true })!;
  context.fillStyle = '#727272';
  context.fillRect(0, 0, w, h);
  const s = Math.min(w / picture.width, h / picture.height);
  if (fit === 'letterbox') context.drawImage(picture, (w - picture.width * s) / 2, (h - picture.height * s) / 2, picture.width * s, picture.height * s);
  else context.drawImage(picture, 0, 0, w, h);
  return context.getImageData(0, 0, w, h).data;
}

/** Sound as mono samples at the rate of the model. */
async function samples(info: TensorInfo, d: Draft): Promise<Tensor> {
  if (!d.file) throw wrong(info, msg.tensors.chooseOrRecordSoundFor(info.name));
  if (!(d.rate >= 3000 && d.rate <= 192_000)) throw wrong(info, msg.tensors.give3000192(info.name));
  const context = new OfflineAudioContext(1, 1, d.rate);
  const sound = await context.decodeAudioData(await d.file.arrayBuffer()).catch(() => { throw wrong(info, msg.tensors.browserCannotReadAsSound(d.fileName || msg.tensors.thatFile)); });
  const mono = new Float32Array(sound.length);
  for (let c = 0; c < sound.numberOfChannels; c++) {
    const channel = sound.getChannelData(c);
    for (let i = 0; i < mono.length; i++) mono[i]! += channel[i]! / sound.numberOfChannels;
  }
  const dims = info.shape ?? [-1];
  const rest = dims.reduce((a, n) => (n < 0 ? a : a * n), 1);
  const open = dims.filter((n) => n < 0).length;
  const length = open ? Math.floor(mono.length / rest) : rest;
  const data = new Float32Array(open ? length * rest : rest);
  data.set(mono.subarray(0, data.length));
  const shape = dims.map((n, i) => (n < 0 ? (i === dims.lastIndexOf(-1) ? length : 1) : n));
  return { name: info.name, datatype: info.datatype, shape, data: info.datatype === 'INT16' ? Int16Array.from(data, (v) => Math.max(-32768, Math.min(32767, Math.round(v * 32767)))) : info.datatype === 'FP64' ? Float64Array.from(data) : data };
}

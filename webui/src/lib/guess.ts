import type { TensorInfo } from './api';
import type { Tensor } from './tensor';

/** How the user enters an input. */
export type InputKind = 'picture' | 'pixels' | 'sound' | 'samples' | 'text' | 'file' | 'numbers';

/** The sides of a picture in a shape; -1: any size. */
export type Layout = { channels: number; height: number; width: number; first: boolean; rank: number };

/** How an output is drawn. */
export type View = 'boxes' | 'classes' | 'ranked' | 'wave' | 'text' | 'picture' | 'numbers';

const pictureWords = /image|picture|photo|img|pixel|frame|jpe?g|png/i;
const soundWords = /audio|sound|speech|wav|voice|pcm|samples?$/i;
const float = (datatype: string) => /^(FP|BF)/.test(datatype);

/** Reads a shape as the shape of a picture; null when it is not one. */
export function layout(info: TensorInfo): Layout | null {
  const shape = info.shape;
  if (!shape || !/^(FP16|FP32|BF16|UINT8)$/.test(info.datatype)) return null;
  const sides = shape.length === 4 ? shape.slice(1) : shape.length === 3 ? shape : null;
  if (!sides) return null;
  // Three dimensions with one plane are ambiguous: only complete pictures are accepted.
  const isChannels = (n: number) => n === 3 || n === 4 || (n === 1 && (shape.length === 4 || info.datatype === 'UINT8'));
  const isSide = (n: number) => n === -1 || n >= 8;
  const [a, b, c] = sides as [number, number, number];
  if (isChannels(a) && isSide(b) && isSide(c)) return { channels: a, height: b, width: c, first: true, rank: shape.length };
  if (isChannels(c) && isSide(a) && isSide(b)) return { channels: c, height: a, width: b, first: false, rank: shape.length };
  return null;
}

/** The kinds of value for an input, most likely first. */
export function inputKinds(info: TensorInfo): InputKind[] {
  if (info.datatype === 'BYTES') {
    const rest: InputKind[] = ['text', 'picture', 'sound', 'file'];
    const first: InputKind = pictureWords.test(info.name) ? 'picture' : soundWords.test(info.name) ? 'sound' : 'text';
    return [first, ...rest.filter((k) => k !== first)];
  }
  if (layout(info)) return ['pixels', 'numbers', 'file'];
  const long = info.shape === null || info.shape.some((d) => d === -1 || d >= 256);
  if ((float(info.datatype) || info.datatype === 'INT16') && long && (info.shape?.length ?? 1) <= 3 && soundWords.test(info.name)) return ['samples', 'numbers', 'file'];
  const last = info.shape?.at(-1) ?? -1;
  return float(info.datatype) && (last === -1 || last >= 256) && (info.shape?.length ?? 1) <= 2 ? ['numbers', 'samples', 'file'] : ['numbers', 'file'];
}

const width = (t: Tensor) => t.shape.at(-1) ?? 1;

const boxWords = /box|rect|quad|region|corner|polygon/i;
const classWords = /class|logit|softmax|label|categor|prob/i;
const vectorWords = /embed|feature|vector|descriptor|^fc1$/i;
const waveWords = /audio|wave|sound|speech|pcm/i;
const rowWords = /score|class|label|text|conf/i;

/** The rows of an output that has the shape of boxes: four numbers each, or four points; -1 when it has another. */
function boxRows(t: Tensor): number {
  if (!float(t.datatype) && !/^U?INT/.test(t.datatype)) return -1;
  const shape = t.shape[0] === 1 && t.shape.length > 2 && t.shape.length !== 3 ? t.shape.slice(1) : t.shape;
  if (shape.length === 2 && shape[1] === 4) return shape[0]!;
  if (shape.length === 3 && shape[1] === 4 && shape[2] === 2) return shape[0]!;
  return shape.length === 3 && shape[0] === 1 && shape[2] === 4 ? shape[1]! : -1;
}

/** Whether an output holds boxes: a single row of four numbers may be the classes of a classifier, and needs a word for it. */
export function isBoxes(t: Tensor, others: readonly Tensor[] = []): boolean {
  const rows = boxRows(t);
  if (rows < 0 || classWords.test(t.name)) return false;
  return rows !== 1 || t.shape.at(-1) === 2 || boxWords.test(t.name) || others.some((o) => o !== t && o.shape.length === 1 && o.data.length === 1 && rowWords.test(o.name));
}

/** Whether an output holds masks: one plane for each thing. */
export const isMasks = (t: Tensor): boolean => t.shape.length === 3 && /^(UINT8|BOOL)$/.test(t.datatype) && /mask/i.test(t.name);

/** Key points of things: for each of them points of x and y, and perhaps how sure they are. */
export const isPoints = (t: Tensor): boolean => t.shape.length === 3 && float(t.datatype) && /point|landmark/i.test(t.name) && (width(t) === 2 || width(t) === 3);

/** The labels that another output has for each element of one, as of the likeliest classes. */
export function labelsOf(t: Tensor, others: readonly Tensor[]): Tensor | undefined {
  if (!float(t.datatype) || t.shape.length !== 2 || !/prob|score|conf/i.test(t.name)) return undefined;
  return others.find((o) => o.datatype === 'BYTES' && o.shape.join() === t.shape.join());
}

const share = (v: number) => v >= 0 && v <= 1;
const whole = (values: readonly number[]) => values.every(share) && Math.abs(values.reduce((a, b) => a + b, 0) - 1) < 0.02;

/** Whether an output holds classes: by its name, as probabilities, or as the logits of a classifier. */
function isClasses(t: Tensor): boolean {
  const rows = t.shape.slice(0, -1).reduce((a, b) => a * b, 1);
  if (!float(t.datatype) || rows !== 1 || t.shape.length > 2 || width(t) < 2 || width(t) > 100_000 || vectorWords.test(t.name)) return false;
  if (classWords.test(t.name)) return true;
  const values = Array.from(t.data as Float32Array, Number);
  const vector = width(t) >= 128 && width(t) % 64 === 0; // the length of embeddings, and of no usual set of classes
  return whole(values) || (t.shape.length === 2 && width(t) >= 10 && !vector && !values.every(share));
}

/** What the box has recognised in a model: its task, and the names of its classes. */
export type Known = { task: string; names: string[] };

/** The best view of an output. Boxes need a picture among the inputs. */
export function view(t: Tensor, picture: boolean, others: readonly Tensor[] = [], known?: Known): View {
  if (t.datatype === 'BYTES') return 'text';
  if (labelsOf(t, others)) return 'ranked';
  if (known && /classification/.test(known.task) && float(t.datatype) && width(t) >= 2 && t.data.length === width(t)) return 'classes';
  if (known && /embedding/.test(known.task)) return 'numbers';
  if (picture && (isBoxes(t, others) || isMasks(t))) return 'boxes';
  const sides = t.shape.filter((d) => d !== 1);
  if (sides.length === 1 && sides[0]! >= 1000 && (float(t.datatype) || t.datatype === 'INT16') && waveWords.test(t.name) && !classWords.test(t.name)) return 'wave';
  if (isClasses(t)) return 'classes';
  const planes = sides.length === 3 && (sides[0] === 3 || sides[2] === 3 || sides[0] === 4 || sides[2] === 4);
  if ((sides.length === 2 && sides.every((d) => d >= 16)) || (planes && Math.min(...sides.filter((d) => d > 4)) >= 16)) return 'picture';
  return 'numbers';
}

/** Scores as probabilities: logits go through softmax. */
export function probabilities(scores: readonly number[]): number[] {
  if (whole(scores)) return [...scores];
  const top = scores.reduce((a, s) => (s > a ? s : a), -Infinity);
  // An infinite score has probability 1, NaN has 0.
  const e = scores.map((s) => (s === top ? 1 : Number.isNaN(s) ? 0 : Math.exp(s - top)));
  const total = e.reduce((a, b) => a + b, 0);
  return e.map((x) => (total > 0 ? x / total : 0));
}

export type Ranked = { index: number; label: string; value: number };

/** The k highest values with their names, highest first. */
export function top(values: readonly number[], labels: readonly string[] | undefined, k: number): Ranked[] {
  return values
    .map((value, index) => ({ index, label: labels?.[index] || `class ${index}`, value }))
    .sort((a, b) => b.value - a.value || a.index - b.index)
    .slice(0, k);
}

export type Box = { points: [number, number][]; score: number | null; text: string };
export type BoxForm = 'x1 y1 x2 y2' | 'y1 x1 y2 x2' | 'centre and size' | 'corner and size';

/** Boxes in fractions of the picture, 0 to 1, with the scores and classes of the same rows in other outputs. */
export function boxes(t: Tensor, others: readonly Tensor[], size: { width: number; height: number }, form: BoxForm): Box[] {
  if (isMasks(t)) return Array.from({ length: t.shape[0]! }, (_, r) => ({ points: [], ...said(others, r, t.shape[0]!) }));
  const flat = Array.from(t.data as Float32Array, Number);
  const each = t.shape.at(-1) === 2 ? 8 : 4;
  const rows = Math.floor(flat.length / each);
  const parts = flat.every((v) => !Number.isFinite(v) || Math.abs(v) <= 1.5);
  const sx = parts ? 1 : size.width;
  const sy = parts ? 1 : size.height;
  const list: Box[] = [];
  for (let r = 0; r < rows; r++) {
    const row = flat.slice(r * each, (r + 1) * each);
    const corners = each === 8 ? quad(row) : rectangle(row as [number, number, number, number], form);
    list.push({ points: corners.map(([x, y]) => [x / sx, y / sy]), ...said(others, r, rows) });
  }
  return list;
}

/** The key points of one thing, in fractions of the picture; those that the model is unsure of are left out. */
export function keyPoints(t: Tensor, row: number, size: { width: number; height: number }): [number, number][] {
  const [, n, each] = t.shape as [number, number, number];
  const data = t.data as Float32Array;
  const list: [number, number][] = [];
  for (let i = row * n * each; i < (row + 1) * n * each; i += each) {
    if (each === 3 && !(Number(data[i + 2]) >= 0.5)) continue;
    list.push([Number(data[i]) / size.width, Number(data[i + 1]) / size.height]);
  }
  return list;
}

function quad(row: number[]): [number, number][] {
  return [0, 2, 4, 6].map((i) => [row[i]!, row[i + 1]!]);
}

function rectangle([a, b, c, d]: [number, number, number, number], form: BoxForm): [number, number][] {
  let [x1, y1, x2, y2] = [a, b, c, d];
  if (form === 'y1 x1 y2 x2') [x1, y1, x2, y2] = [b, a, d, c];
  if (form === 'centre and size') [x1, y1, x2, y2] = [a - c / 2, b - d / 2, a + c / 2, b + d / 2];
  if (form === 'corner and size') [x1, y1, x2, y2] = [a, b, a + c, b + d];
  return [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
}

function said(others: readonly Tensor[], row: number, rows: number): { score: number | null; text: string } {
  let score: number | null = null;
  let number = '';
  const words: string[] = [];
  for (const o of others) {
    if (o.data.length !== rows) continue;
    const value = o.data[row];
    if (value instanceof Uint8Array) words.push(new TextDecoder().decode(value));
    else if (/score|conf|prob/i.test(o.name)) score ??= Number(value);
    else if (/class|label/i.test(o.name)) number ||= `class ${Number(value)}`;
  }
  return { score, text: words.join(' ').replace(/^\d+$/, (n) => `class ${n}`) || number };
}

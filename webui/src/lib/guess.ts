import type { TensorInfo } from './api';
import type { Tensor } from './tensor';

/** How the user enters an input. */
export type InputKind = 'picture' | 'pixels' | 'sound' | 'samples' | 'text' | 'file' | 'numbers';

/** The sides of a picture in a shape; -1: any size. */
export type Layout = { channels: number; height: number; width: number; first: boolean; rank: number };

/** How an output is drawn. */
export type View = 'boxes' | 'classes' | 'text' | 'picture' | 'numbers';

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

/** Whether an output may hold boxes: rows of four numbers, or of four points. */
export function isBoxes(t: Tensor): boolean {
  if (!float(t.datatype) && !/^U?INT/.test(t.datatype)) return false;
  const shape = t.shape[0] === 1 && t.shape.length > 2 && t.shape.length !== 3 ? t.shape.slice(1) : t.shape;
  const rows = shape.length === 2 && shape[1] === 4;
  const points = shape.length === 3 && shape[1] === 4 && shape[2] === 2;
  const batched = shape.length === 3 && shape[0] === 1 && shape[2] === 4;
  return rows || points || batched;
}

const classWords = /class|logit|softmax|label|categor/i;
const share = (v: number) => v >= 0 && v <= 1;
const whole = (values: readonly number[]) => values.every(share) && Math.abs(values.reduce((a, b) => a + b, 0) - 1) < 0.02;

/** Whether an output holds classes: by its name, as probabilities, or as the logits of a classifier. */
function isClasses(t: Tensor): boolean {
  const rows = t.shape.slice(0, -1).reduce((a, b) => a * b, 1);
  if (!float(t.datatype) || rows !== 1 || t.shape.length > 2 || width(t) < 2 || width(t) > 100_000) return false;
  if (classWords.test(t.name)) return true;
  const values = Array.from(t.data as Float32Array, Number);
  return whole(values) || (t.shape.length === 2 && width(t) >= 10 && !values.every(share));
}

/** The best view of an output. Boxes need a picture among the inputs. */
export function view(t: Tensor, picture: boolean): View {
  if (t.datatype === 'BYTES') return 'text';
  if (picture && isBoxes(t)) return 'boxes';
  if (isClasses(t)) return 'classes';
  const sides = t.shape.filter((d) => d !== 1);
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
  const words: string[] = [];
  for (const o of others) {
    if (o.data.length !== rows) continue;
    const value = o.data[row];
    if (value instanceof Uint8Array) words.push(new TextDecoder().decode(value));
    else if (/score|conf|prob/i.test(o.name)) score ??= Number(value);
    else if (/class|label/i.test(o.name)) words.push(`class ${Number(value)}`);
  }
  return { score, text: words.join(' ') };
}

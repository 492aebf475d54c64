// The output of a YOLO head in, what is in the picture out, the surest first: boxes, and masks, key points or turned boxes where the head has them.

import {
  List, Outputs, Place, at, choiceParameter, describe, fail, intParameter, label, lastError, nms, numberParameter, parameter, readLabels, readPlace, run,
} from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "detector", "version": "1.0.0", "description": "boxes, masks, key points or turned boxes of a YOLO head",
  "inputs": [
    {"name": "output", "datatype": "FP32", "shape": [1, -1, -1], "description": "v8: [1, 4 + classes + more, places]; v5: [1, places, 5 + classes + more]; end2end: [1, rows, 6 + more]"},
    {"name": "proto", "datatype": "FP32", "shape": [1, -1, -1, -1], "optional": true, "description": "of masks: [1, prototypes, height, width]"},
    {"name": "map", "datatype": "FP32", "shape": [-1, 6], "optional": true, "description": "from picture_input"}],
  "outputs": [
    {"name": "box", "datatype": "FP32", "shape": [-1, 4], "description": "x1, y1, x2, y2"},
    {"name": "score", "datatype": "FP32", "shape": [-1]},
    {"name": "class", "datatype": "INT32", "shape": [-1]},
    {"name": "label", "datatype": "BYTES", "shape": [-1]},
    {"name": "mask", "datatype": "UINT8", "shape": [-1, -1, -1], "description": "1 where the thing is; spread over the whole picture"},
    {"name": "point", "datatype": "FP32", "shape": [-1, -1, 3], "description": "x, y and how sure"},
    {"name": "quad", "datatype": "FP32", "shape": [-1, 4, 2], "description": "the corners of turned boxes"}],
  "parameters": [
    {"name": "labels", "description": "one label a line"},
    {"name": "score", "default": "0.25", "description": "the least score, 0 to 1"},
    {"name": "iou", "default": "0.45", "description": "overlap from which two boxes of a class are one, 0 to 1"},
    {"name": "max", "default": "100", "description": "things to return at most"},
    {"name": "head", "default": "v8", "description": "one of v8, v5, end2end. v8: also v9, v11, v12; v5: also v7; end2end: v10, v26"},
    {"name": "more", "default": "none", "description": "one of none, masks, points, angle: what follows the classes"},
    {"name": "points", "default": "17x3", "description": "key points, and numbers of each: 2 or 3"}]
}`;

const most = 1000000;

// How the head lies in memory: value v of place i is at data + 4 * (i * place + v * value).
class Head {
  places: i32 = 0;
  place: i32 = 0;
  value: i32 = 0;
  classes: i32 = 0;
  first: i32 = 0;  // value from which on the classes stand
  extra: i32 = 0;  // value from which on more stands
  points: i32 = 0; // key points, and numbers of each
  each: i32 = 0;
  constructor(public data: usize, public kind: string, public more: string) {}
  // @ts-ignore: decorator
  @inline at(i: i32, v: i32): f32 { return load<f32>(this.data + 4 * (<usize>i * this.place + <usize>v * this.value)); }
}

// How many values follow the classes; -1 after fail.
function extras(h: Head, inputs: List): i32 {
  if (h.more == "none") return 0;
  if (h.more == "angle") return 1;
  if (h.more == "masks") {
    const proto = inputs.get<f32>("proto");
    return proto == null ? -1 : <i32>proto.shape[1];
  }
  const set = parameter("points"), text = set == null ? "17x3" : set, words = text.split("x");
  h.points = words.length == 2 ? <i32>I32.parseInt(words[0]) : 0;
  h.each = words.length == 2 ? <i32>I32.parseInt(words[1]) : 0;
  if (h.points > 0 && h.points <= 1000 && (h.each == 2 || h.each == 3)) return h.points * h.each;
  fail(`parameter "points" is "${text}": want 17x3 and the like`);
  return -1;
}

function readHead(inputs: List): Head | null {
  const output = inputs.get<f32>("output"), kind = choiceParameter("head", ["v8", "v5", "end2end"]), more = choiceParameter("more", ["none", "masks", "points", "angle"]);
  if (output == null || !kind.ok || !more.ok) return null;
  const h = new Head(output.pointer(0), kind.value, more.value), shape = output.shape, extra = extras(h, inputs);
  if (extra < 0) return null;
  const v8 = kind.value == "v8", values = <i32>(v8 ? shape[1] : shape[2]);
  h.places = <i32>(v8 ? shape[2] : shape[1]);
  h.place = v8 ? 1 : values;
  h.value = v8 ? h.places : 1;
  h.first = v8 ? 4 : 5;
  h.extra = kind.value == "end2end" ? 6 : values - extra;
  h.classes = kind.value == "end2end" ? 1 : h.extra - h.first;
  if (h.classes >= 1 && h.classes <= 10000 && h.extra + extra == values && h.places <= most) return h;
  fail(`input "output" is [1,${shape[1].toString()},${shape[2].toString()}]: ${kind.value} with ${extra.toString()} values behind the classes is ` +
    (v8 ? "[1, 4 + classes + more, places]" : kind.value == "v5" ? "[1, places, 5 + classes + more]" : "[1, rows, 6 + more]"));
  return null;
}

// What stands at the places that are sure enough, in the model's input.
class Found {
  place: i32[] = [];
  score: f32[] = [];
  kind: i32[] = [];
  box: f32[] = []; // x1, y1, x2, y2; of turned boxes center and size
}

function gather(h: Head, least: f32): Found {
  const f = new Found(), corners = h.kind == "end2end" && h.more != "angle", turned = h.more == "angle";
  for (let i = 0; i < h.places; i++) {
    const object: f32 = h.kind == "v5" ? h.at(i, 4) : 1;
    if (!(object >= least)) continue;
    let score = h.at(i, h.kind == "end2end" ? 4 : h.first), kind = h.kind == "end2end" ? <i32>h.at(i, 5) : 0;
    for (let c = 1; c < h.classes; c++) {
      const s = h.at(i, h.first + c);
      if (s > score || score != score) score = s, kind = c;
    }
    score *= object;
    if (!(score >= least)) continue;
    const a = h.at(i, 0), b = h.at(i, 1), c = h.at(i, 2), d = h.at(i, 3);
    f.place.push(i), f.score.push(score), f.kind.push(kind);
    if (corners || turned) f.box.push(a), f.box.push(b), f.box.push(c), f.box.push(d);
    else f.box.push(a - c / 2), f.box.push(b - d / 2), f.box.push(a + c / 2), f.box.push(b + d / 2);
  }
  return f;
}

// The covariance of a turned box that is taken for a Gaussian distribution.
class Spread {
  constructor(public x: f64, public y: f64, public a: f64, public b: f64, public c: f64) {}
}
function spread(f: Found, h: Head, k: i32): Spread {
  const w = <f64>f.box[4 * k + 2], d = <f64>f.box[4 * k + 3], t = <f64>h.at(f.place[k], h.extra), s = Math.sin(t), c = Math.cos(t);
  const p = w * w / 12, q = d * d / 12;
  return new Spread(f.box[4 * k], f.box[4 * k + 1], p * c * c + q * s * s, p * s * s + q * c * c, (p - q) * c * s);
}

// The overlap of two turned boxes, as they are trained with: one less the Hellinger distance of their distributions.
function overlap(p: Spread, q: Spread): f64 {
  const a = p.a + q.a, b = p.b + q.b, c = p.c + q.c, x = p.x - q.x, y = p.y - q.y, e = 1e-9, area = a * b - c * c + e;
  const first = (a * y * y + b * x * x) / area / 4, second = -c * x * y / area / 2;
  const own = Math.sqrt(max(0, p.a * p.b - p.c * p.c) * max(0, q.a * q.b - q.c * q.c));
  const distance = first + second + 0.5 * Math.log(area / (4 * own + e) + e);
  return 1 - Math.sqrt(max(0, 1 - Math.exp(-min(100, max(e, distance))) + e));
}

// Keeps the surest of turned boxes that overlap.
function keepTurned(f: Found, h: Head, iou: f64, limit: i32): i32[] {
  const order = new Array<i32>(), kept = new Array<i32>(), spreads = new Array<Spread>();
  for (let k = 0; k < f.score.length; k++) order.push(k);
  scores = f.score;
  order.sort((a, b) => scores[a] > scores[b] ? -1 : scores[a] < scores[b] ? 1 : a - b);
  for (let i = 0; i < order.length && kept.length < limit; i++) {
    const k = order[i], mine = spread(f, h, k);
    let free = true;
    for (let j = 0; free && j < kept.length; j++) free = f.kind[kept[j]] != f.kind[k] || overlap(spreads[j], mine) <= iou;
    if (free) kept.push(k), spreads.push(mine);
  }
  return kept;
}
let scores: f32[] = []; // what the order of keepTurned looks at: functions in functions see module variables alone

// Keeps the surest of boxes that overlap, those of an end-to-end head as they are. Null after fail.
function keep(f: Found, h: Head, iou: f32, least: f32, limit: i32): i32[] | null {
  if (h.more == "angle") return keepTurned(f, h, h.kind == "end2end" ? 2 : iou, limit);
  const n = f.score.length, boxes = StaticArray.fromArray<f32>(f.box), score = StaticArray.fromArray<f32>(f.score), kind = StaticArray.fromArray<i32>(f.kind);
  const to = new StaticArray<i32>(limit), overlap: f32 = h.kind == "end2end" ? 1 : iou;
  const found = nms(changetype<usize>(boxes), changetype<usize>(score), changetype<usize>(kind), n, overlap, least, changetype<usize>(to), limit);
  if (found < 0) {
    fail("boxes that overlap cannot be found: " + lastError());
    return null;
  }
  return to.slice<i32[]>(0, found);
}

// The masks of what was kept, at the size of the prototypes, cut out at the box, spread over the whole picture.
function masks(inputs: List, h: Head, f: Found, kept: i32[], p: Place, out: Outputs): void {
  const proto = h.more == "masks" ? inputs.get<f32>("proto") : null;
  if (proto == null) {
    out.add<u8>("mask", [0, 0, 0], new StaticArray<u8>(0));
    return;
  }
  const n = <i32>proto.shape[1], ph = <i32>proto.shape[2], pw = <i32>proto.shape[3], data = proto.pointer(0);
  // The prototypes are a whole fraction of the input: what lies in the picture is cut out of them.
  const inputW = p.width < 1e9 ? p.width * p.scaleX + 2 * p.padX : <f32>pw * 4, inputH = p.height < 1e9 ? p.height * p.scaleY + 2 * p.padY : <f32>ph * 4;
  const sx = <f32>pw / max<f32>(1, Mathf.round(inputW)), sy = <f32>ph / max<f32>(1, Mathf.round(inputH));
  const left = <i32>Mathf.round(p.padX * sx), top = <i32>Mathf.round(p.padY * sy);
  const width = max(1, pw - 2 * left), height = max(1, ph - 2 * top), mask = new StaticArray<u8>(kept.length * width * height);
  const one = new StaticArray<f32>(ph * pw);
  for (let k = 0; k < kept.length; k++) {
    const place = f.place[kept[k]], b = 4 * kept[k];
    const x1 = max(left, <i32>Mathf.floor(f.box[b] * sx)), x2 = min(left + width, <i32>Mathf.ceil(f.box[b + 2] * sx));
    const y1 = max(top, <i32>Mathf.floor(f.box[b + 1] * sy)), y2 = min(top + height, <i32>Mathf.ceil(f.box[b + 3] * sy));
    one.fill(0);
    for (let c = 0; c < n; c++) {
      const weight = h.at(place, h.extra + c);
      for (let y = y1; y < y2; y++) {
        for (let x = x1; x < x2; x++) unchecked(one[y * pw + x] += weight * load<f32>(data + 4 * <usize>((c * ph + y) * pw + x)));
      }
    }
    for (let y = y1; y < y2; y++) {
      for (let x = x1; x < x2; x++) mask[(k * height + y - top) * width + x - left] = <u8>(one[y * pw + x] > 0);
    }
  }
  out.add<u8>("mask", [kept.length, height, width], mask);
}

function points(h: Head, f: Found, kept: i32[], p: Place, out: Outputs): void {
  const point = new StaticArray<f32>(kept.length * h.points * 3);
  for (let k = 0, to = 0; k < kept.length; k++) {
    for (let j = 0; j < h.points; j++, to += 3) {
      const v = h.extra + j * h.each, i = f.place[kept[k]];
      point[to] = p.x(h.at(i, v));
      point[to + 1] = p.y(h.at(i, v + 1));
      point[to + 2] = h.each == 3 ? h.at(i, v + 2) : 1;
    }
  }
  out.add<f32>("point", [kept.length, h.points, 3], point);
}

// Boxes in the picture, and the corners of turned ones.
function places(h: Head, f: Found, kept: i32[], p: Place, out: Outputs): void {
  const turned = h.more == "angle", box = new StaticArray<f32>(4 * kept.length), quad = new StaticArray<f32>(turned ? 8 * kept.length : 0);
  for (let k = 0; k < kept.length; k++) {
    const b = 4 * kept[k];
    if (!turned) {
      for (let v = 0; v < 4; v++) box[4 * k + v] = v % 2 == 0 ? p.x(f.box[b + v]) : p.y(f.box[b + v]);
      continue;
    }
    const t = h.at(f.place[kept[k]], h.extra), c = Mathf.cos(t), s = Mathf.sin(t), w = f.box[b + 2] / 2, d = f.box[b + 3] / 2;
    for (let v = 0; v < 4; v++) {
      const x: f32 = v == 0 || v == 3 ? -w : w, y: f32 = v < 2 ? -d : d;
      const px = p.x(f.box[b] + x * c - y * s), py = p.y(f.box[b + 1] + x * s + y * c);
      quad[8 * k + 2 * v] = px, quad[8 * k + 2 * v + 1] = py;
      box[4 * k] = v == 0 ? px : min(box[4 * k], px), box[4 * k + 1] = v == 0 ? py : min(box[4 * k + 1], py);
      box[4 * k + 2] = max(box[4 * k + 2], px), box[4 * k + 3] = max(box[4 * k + 3], py);
    }
  }
  out.add<f32>("box", [kept.length, 4], box).add<f32>("quad", [turned ? kept.length : 0, 4, 2], quad);
}

function process(inputs: List): Outputs | null {
  const least = numberParameter("score", 0.25, 0, 1), iou = numberParameter("iou", 0.45, 0, 1), limit = intParameter("max", 100, 1, 1000);
  if (!least.ok || !iou.ok || !limit.ok) return null;
  const h = readHead(inputs), p = readPlace(inputs);
  if (h == null || p == null) return null;
  const f = gather(h, <f32>least.value), kept = keep(f, h, <f32>iou.value, <f32>least.value, <i32>limit.value);
  if (kept == null) return null;
  const score = new StaticArray<f32>(kept.length), kind = new StaticArray<i32>(kept.length), labels = readLabels(), names = new Array<string>();
  for (let k = 0; k < kept.length; k++) {
    score[k] = f.score[kept[k]];
    kind[k] = f.kind[kept[k]];
    names.push(label(labels, kind[k]));
  }
  const all: i64[] = [kept.length], out = new Outputs().add<f32>("score", all, score).add<i32>("class", all, kind).addStrings("label", all, names);
  places(h, f, kept, p, out);
  masks(inputs, h, f, kept, p, out);
  points(h, f, kept, p, out);
  return out;
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

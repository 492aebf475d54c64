// Boxes with their scores in, as DETR, SSD and other detectors without overlaps answer them: boxes in the picture out, the surest first.

import { List, Outputs, Place, Tensor, at, choiceParameter, describe, fail, intParameter, label, numberParameter, readLabels, readPlace, run } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "detections", "version": "1.0.0", "description": "boxes of a detector that returns no overlaps, as DETR and SSD",
  "inputs": [
    {"name": "box", "datatype": "FP32", "shape": [1, -1, 4]},
    {"name": "logits", "datatype": "FP32", "shape": [1, -1, -1], "optional": true, "description": "a number for each class of each box"},
    {"name": "score", "datatype": "FP32", "shape": [1, -1], "optional": true, "description": "of each box, instead of logits"},
    {"name": "class", "datatype": "FP32", "shape": [1, -1], "optional": true, "description": "of each box, with score"},
    {"name": "number", "datatype": "INT64", "shape": [1, -1], "optional": true, "description": "the same as whole numbers"},
    {"name": "map", "datatype": "FP32", "shape": [-1, 6], "optional": true, "description": "from picture_input"}],
  "outputs": [
    {"name": "box", "datatype": "FP32", "shape": [-1, 4], "description": "x1, y1, x2, y2"},
    {"name": "score", "datatype": "FP32", "shape": [-1]},
    {"name": "class", "datatype": "INT32", "shape": [-1]},
    {"name": "label", "datatype": "BYTES", "shape": [-1]}],
  "parameters": [
    {"name": "labels", "description": "one label a line"},
    {"name": "score", "default": "0.5", "description": "the least score, 0 to 1"},
    {"name": "max", "default": "100", "description": "boxes to return at most"},
    {"name": "form", "default": "corners", "description": "one of corners, center, rows. corners: x1 y1 x2 y2; center: x y width height; rows: y1 x1 y2 x2"},
    {"name": "unit", "default": "auto", "description": "one of auto, fraction, pixels: of the model's input"},
    {"name": "width", "default": "640", "description": "of the model's input, for fractions"},
    {"name": "height", "default": "640"},
    {"name": "activation", "default": "softmax", "description": "one of softmax, sigmoid, none: of logits. softmax: the last class is none"},
    {"name": "first", "default": "0", "description": "the number of the first label"}]
}`;

class Scored {
  constructor(public score: f32, public kind: i32, public row: i32) {}
}

// The surest class of a row of logits.
function best(row: usize, n: i32, activation: string, i: i32): Scored {
  const none = activation == "softmax" ? 1 : 0;
  let high: f32 = -Infinity, kind = 0, top: f32 = -Infinity;
  for (let c = 0; c < n; c++) {
    const v = load<f32>(row + 4 * <usize>c);
    if (v > top) top = v;
    if (c < n - none && v > high) high = v, kind = c;
  }
  if (activation == "none") return new Scored(high, kind, i);
  if (activation == "sigmoid") return new Scored(1 / (1 + Mathf.exp(-high)), kind, i);
  let sum: f32 = 0;
  for (let c = 0; c < n; c++) sum += Mathf.exp(load<f32>(row + 4 * <usize>c) - top);
  return new Scored(Mathf.exp(high - top) / sum, kind, i);
}

// The score and the class of every box. Null after fail.
function scored(inputs: List, rows: i32): Scored[] | null {
  const all = new Array<Scored>(), logits = inputs.find("logits"), activation = choiceParameter("activation", ["softmax", "sigmoid", "none"]);
  if (!activation.ok) return null;
  if (logits != null) {
    const shape = logits.shape, n = <i32>shape[2];
    if (<i32>shape[1] != rows || n < 1 || n == 1 && activation.value == "softmax") {
      fail(`input "logits" is [1,${shape[1].toString()},${shape[2].toString()}]: want a row for each of ${rows.toString()} boxes`);
      return null;
    }
    for (let i = 0; i < rows; i++) all.push(best(logits.data + 4 * <usize>(i * n), n, activation.value, i));
    return all;
  }
  const score = inputs.get<f32>("score"), kind = inputs.find("class"), number = inputs.find("number");
  if (score == null) return null;
  if (score.length != rows || kind != null && <i32>kind.shape[1] != rows || number != null && <i32>number.shape[1] != rows) {
    fail(`the inputs have different lengths: ${rows.toString()} boxes, ${score.length.toString()} scores`);
    return null;
  }
  for (let i = 0; i < rows; i++) all.push(new Scored(score[i], kindOf(kind, number, i), i));
  return all;
}

function kindOf(kind: Tensor | null, number: Tensor | null, i: i32): i32 {
  if (kind != null) return <i32>Mathf.round(load<f32>(kind.data + 4 * <usize>i));
  return number != null ? <i32>load<i64>(number.data + 8 * <usize>i) : 0;
}

// Whether boxes are fractions: none of those that count is beyond the model's input.
function fractions(unit: string, data: usize, kept: Scored[]): bool {
  if (unit != "auto") return unit == "fraction";
  for (let k = 0; k < kept.length; k++) {
    for (let v = 0; v < 4; v++) {
      if (Mathf.abs(load<f32>(data + 16 * <usize>kept[k].row + 4 * <usize>v)) > 2) return false;
    }
  }
  return true;
}

function process(inputs: List): Outputs | null {
  const box = inputs.get<f32>("box"), p = readPlace(inputs), least = numberParameter("score", 0.5, 0, 1), limit = intParameter("max", 100, 1, 1000);
  const form = choiceParameter("form", ["corners", "center", "rows"]), unit = choiceParameter("unit", ["auto", "fraction", "pixels"]);
  const width = intParameter("width", 640, 1, 16384), height = intParameter("height", 640, 1, 16384), first = intParameter("first", 0, -1000, 1000);
  if (box == null || p == null || !least.ok || !limit.ok || !form.ok || !unit.ok || !width.ok || !height.ok || !first.ok) return null;
  const all = scored(inputs, <i32>box.shape[1]);
  if (all == null) return null;
  const kept = new Array<Scored>();
  for (let i = 0; i < all.length; i++) if (all[i].score >= <f32>least.value) kept.push(all[i]);
  kept.sort((a, b) => a.score > b.score ? -1 : a.score < b.score ? 1 : a.row - b.row);
  if (kept.length > <i32>limit.value) kept.length = <i32>limit.value;
  const part = fractions(unit.value, box.pointer(0), kept), sx: f32 = part ? <f32>width.value : 1, sy: f32 = part ? <f32>height.value : 1;
  const to = new StaticArray<f32>(4 * kept.length), score = new StaticArray<f32>(kept.length), kind = new StaticArray<i32>(kept.length);
  const labels = readLabels(), names = new Array<string>();
  for (let k = 0; k < kept.length; k++) {
    corners(form.value, box.pointer(4 * kept[k].row), p, sx, sy, changetype<usize>(to) + 16 * <usize>k);
    score[k] = kept[k].score;
    kind[k] = kept[k].kind;
    names.push(label(labels, kind[k] - <i32>first.value));
  }
  const n: i64[] = [kept.length];
  return new Outputs().add<f32>("box", [kept.length, 4], to).add<f32>("score", n, score).add<i32>("class", n, kind).addStrings("label", n, names);
}

// Writes the corners of a box in the picture.
function corners(form: string, from: usize, p: Place, sx: f32, sy: f32, to: usize): void {
  let a = load<f32>(from), b = load<f32>(from, 4), c = load<f32>(from, 8), d = load<f32>(from, 12);
  if (form == "rows") {
    const y = a, y2 = c;
    a = b, b = y, c = d, d = y2;
  } else if (form == "center") {
    const w = c / 2, h = d / 2;
    c = a + w, d = b + h, a -= w, b -= h;
  }
  store<f32>(to, p.x(a * sx));
  store<f32>(to, p.y(b * sy), 4);
  store<f32>(to, p.x(c * sx), 8);
  store<f32>(to, p.y(d * sy), 12);
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

// Scores of classes for each pixel in, a mask of each class that is there out, the largest first.

import { List, Outputs, at, describe, fail, intParameter, label, numberParameter, readLabels, run } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "segments", "version": "1.0.0", "description": "masks of the classes of a semantic segmentation",
  "inputs": [{"name": "scores", "datatype": "FP32", "shape": [1, -1, -1, -1], "description": "[1, classes, height, width] of the whole picture"}],
  "outputs": [
    {"name": "mask", "datatype": "UINT8", "shape": [-1, -1, -1], "description": "1 where the class is; spread over the whole picture"},
    {"name": "score", "datatype": "FP32", "shape": [-1], "description": "the share of the picture"},
    {"name": "class", "datatype": "INT32", "shape": [-1]},
    {"name": "label", "datatype": "BYTES", "shape": [-1]}],
  "parameters": [
    {"name": "labels", "description": "one label a line"},
    {"name": "share", "default": "0.01", "description": "the least share of the picture, 0 to 1"},
    {"name": "background", "default": "-1", "description": "the class that is left out; -1: none"},
    {"name": "max", "default": "20", "description": "masks to return at most"}]
}`;

function process(inputs: List): Outputs | null {
  const scores = inputs.get<f32>("scores"), background = intParameter("background", -1, -1, 100000), most = intParameter("max", 20, 1, 255);
  const share = numberParameter("share", 0.01, 0, 1);
  if (scores == null || !background.ok || !most.ok || !share.ok) return null;
    const shape = scores.shape, classes = <i32>shape[1], height = <i32>shape[2], width = <i32>shape[3], n = width * height;
  if (classes < 2 || n == 0) {
    fail(`input "scores" has ${classes.toString()} classes of ${width.toString()}x${height.toString()} pixels: want at least 2 classes`);
    return null;
  }
  const best = new StaticArray<i32>(n), count = new StaticArray<i32>(classes), from = scores.pointer(0);
  for (let i = 0; i < n; i++) {
    let top = load<f32>(from + 4 * <usize>i), at = 0;
    for (let c = 1; c < classes; c++) {
      const v = load<f32>(from + 4 * (<usize>c * n + i));
      if (v > top) top = v, at = c;
    }
    best[i] = at;
    count[at]++;
  }
  const found = new Array<i32>();
  while (found.length < <i32>most.value) {
    let at = -1;
    for (let c = 0; c < classes; c++) {
      if (c != <i32>background.value && !found.includes(c) && count[c] > 0 && <f64>count[c] >= share.value * <f64>n && (at < 0 || count[c] > count[at])) at = c;
    }
    if (at < 0) break;
    found.push(at);
  }
  const mask = new StaticArray<u8>(found.length * n), part = new StaticArray<f32>(found.length), number = new StaticArray<i32>(found.length);
  const labels = readLabels(), names = new Array<string>();
  for (let k = 0; k < found.length; k++) {
    for (let i = 0; i < n; i++) mask[k * n + i] = <u8>(best[i] == found[k]);
    part[k] = <f32>count[found[k]] / <f32>n;
    number[k] = found[k];
    names.push(label(labels, found[k]));
  }
  const all: i64[] = [found.length];
  return new Outputs().add<u8>("mask", [found.length, height, width], mask).add<f32>("score", all, part).add<i32>("class", all, number).addStrings("label", all, names);
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

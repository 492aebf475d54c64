// The scores of a classifier in, the likeliest classes with their labels out.

import { List, Outputs, at, choiceParameter, describe, fail, intParameter, label, readLabels, run, softmax, topK } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "classes", "version": "1.0.0", "description": "the likeliest classes, their probabilities and their labels",
  "inputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, -1]}],
  "outputs": [
    {"name": "label", "datatype": "BYTES", "shape": [-1, -1]},
    {"name": "probability", "datatype": "FP32", "shape": [-1, -1]},
    {"name": "class", "datatype": "INT32", "shape": [-1, -1]}],
  "parameters": [
    {"name": "labels", "description": "one label a line; a class without one is called by its number"},
    {"name": "k", "default": "5", "description": "classes to return"},
    {"name": "softmax", "default": "auto", "description": "one of auto, true, false. auto: scores that are probabilities stay as they are"},
    {"name": "rows", "default": "each", "description": "one of each, mean: the classes of each row, or of their mean, as of the frames of a sound"}]
}`;

// Whether the scores of a row are probabilities: of one class among all, or of each class alone.
function probable(row: usize, n: i32): bool {
  for (let i = 0; i < n; i++) {
    const v = load<f32>(row + 4 * <usize>i);
    if (!(v >= 0 && v <= 1)) return false;
  }
  return true;
}

function mean(scores: usize, rows: i32, classes: i32): StaticArray<f32> {
  const all = new StaticArray<f32>(classes);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < classes; c++) all[c] += load<f32>(scores + 4 * <usize>(r * classes + c)) / <f32>rows;
  }
  return all;
}

function process(inputs: List): Outputs | null {
  const scores = inputs.get<f32>("scores"), k = intParameter("k", 5, 1, 1000);
  const kind = choiceParameter("softmax", ["auto", "true", "false"]), over = choiceParameter("rows", ["each", "mean"]);
  if (scores == null || !k.ok || !kind.ok || !over.ok) return null;
  const shape = scores.shape, classes = <i32>shape[1], each = min<i32>(<i32>k.value, classes);
  let rows = <i32>shape[0], values = scores.pointer(0);
  if (rows == 0 || classes == 0) {
    fail('input "scores" is empty');
    return null;
  }
  const one = over.value == "mean" ? mean(values, rows, classes) : new StaticArray<f32>(0);
  if (one.length > 0) values = changetype<usize>(one), rows = 1;
  for (let r = 0; r < rows; r++) {
    const row = values + 4 * <usize>(r * classes);
    if (kind.value == "true" || kind.value == "auto" && !probable(row, classes)) softmax(row, row, 1, classes);
  }
  const probability = new StaticArray<f32>(rows * each), found = new StaticArray<i32>(rows * each);
  topK(values, rows, classes, each, changetype<usize>(probability), changetype<usize>(found));
  const labels = readLabels(), names = new Array<string>();
  for (let i = 0; i < found.length; i++) names.push(label(labels, found[i]));
  const out: i64[] = [rows, each];
  return new Outputs().addStrings("label", out, names).add<f32>("probability", out, probability).add<i32>("class", out, found);
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

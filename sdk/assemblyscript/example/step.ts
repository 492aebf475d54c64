// The worked example: scores of classes in, the likeliest classes with their labels out.

import { List, Outputs, at, describe, fail, intParameter, parameter, run } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "classify", "version": "1.0.0", "description": "softmax, the k likeliest classes and their labels",
  "inputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, -1]}],
  "outputs": [
    {"name": "label", "datatype": "BYTES", "shape": [-1, -1]},
    {"name": "probability", "datatype": "FP32", "shape": [-1, -1]},
    {"name": "class", "datatype": "INT32", "shape": [-1, -1]}],
  "parameters": [
    {"name": "k", "default": "5", "description": "classes to return"},
    {"name": "labels", "description": "one label a line; a class without one is called by its number"}]
}`;

// Returns the k likeliest classes of each row of scores.
function classify(inputs: List): Outputs | null {
  const scores = inputs.get<f32>("scores"), k = intParameter("k", 5, 1, 1000);
  if (scores == null || !k.ok) return null;
  const shape = scores.shape;
  if (shape.length != 2) {
    fail(`input "scores" has ${shape.length} dimensions: want [rows, classes]`);
    return null;
  }
  const rows = <i32>shape[0], classes = <i32>shape[1], each = min<i32>(<i32>k.value, classes);
  const text = parameter("labels"), labels: string[] = text == null ? [] : text.split("\n");

  const names = new Array<string>(), probability = new StaticArray<f32>(rows * each), found = new StaticArray<i32>(rows * each);
  for (let r = 0; r < rows; r++) {
    softmax(scores.pointer(r * classes), classes);
    top(scores.pointer(r * classes), classes, each, changetype<usize>(probability) + 4 * r * each, changetype<usize>(found) + 4 * r * each);
  }
  for (let i = 0; i < found.length; i++) names.push(label(labels, found[i]));
  const out: i64[] = [rows, each];
  return new Outputs().addStrings("label", out, names).add<f32>("probability", out, probability).add<i32>("class", out, found);
}

// Turns a row of n scores into probabilities, in place.
function softmax(row: usize, n: i32): void {
  let highest: f32 = -Infinity, sum: f32 = 0;
  for (let i = 0; i < n; i++) highest = max(highest, load<f32>(row + 4 * i));
  for (let i = 0; i < n; i++) {
    const e = <f32>Math.exp(load<f32>(row + 4 * i) - highest);
    store<f32>(row + 4 * i, e);
    sum += e;
  }
  for (let i = 0; i < n; i++) store<f32>(row + 4 * i, load<f32>(row + 4 * i) / sum);
}

// Writes the k largest of a row of n values, the largest first, of equal ones the lower class first.
function top(row: usize, n: i32, k: i32, values: usize, classes: usize): void {
  let kept = 0;
  for (let i = 0; i < n; i++) {
    const v = load<f32>(row + 4 * i);
    if (kept == k && !(v > load<f32>(values + 4 * (k - 1)))) continue;
    let p = kept < k ? kept++ : k - 1;
    for (; p > 0 && v > load<f32>(values + 4 * (p - 1)); p--) {
      store<f32>(values + 4 * p, load<f32>(values + 4 * (p - 1)));
      store<i32>(classes + 4 * p, load<i32>(classes + 4 * (p - 1)));
    }
    store<f32>(values + 4 * p, v);
    store<i32>(classes + 4 * p, i);
  }
}

// The name of a class, its number where it has none.
function label(labels: string[], n: i32): string {
  return n < labels.length && labels[n] != "" ? labels[n] : n.toString();
}

export function edgewise_process(inputs: usize): usize { return run(classify(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

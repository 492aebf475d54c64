// The conformance step in AssemblyScript: what it does, and why, is in sdk/conformance/README.md.

import { List, Outputs, Span, at, describe, emit, fail, imageDecode, infer, lastError, log, parameter, run, softmax } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{"name": "conformance", "version": "1.0.0", "description": "exercises the whole ABI",
  "inputs": [
    {"name": "bool", "datatype": "BOOL", "shape": [-1], "optional": true},
    {"name": "uint8", "datatype": "UINT8", "shape": [-1], "optional": true},
    {"name": "uint16", "datatype": "UINT16", "shape": [-1], "optional": true},
    {"name": "uint32", "datatype": "UINT32", "shape": [-1], "optional": true},
    {"name": "uint64", "datatype": "UINT64", "shape": [-1], "optional": true},
    {"name": "int8", "datatype": "INT8", "shape": [-1], "optional": true},
    {"name": "int16", "datatype": "INT16", "shape": [-1], "optional": true},
    {"name": "int32", "datatype": "INT32", "shape": [-1], "optional": true},
    {"name": "int64", "datatype": "INT64", "shape": [-1], "optional": true},
    {"name": "fp16", "datatype": "FP16", "shape": [-1], "optional": true},
    {"name": "fp32", "datatype": "FP32", "shape": [-1], "optional": true},
    {"name": "fp64", "datatype": "FP64", "shape": [-1], "optional": true},
    {"name": "bf16", "datatype": "BF16", "shape": [-1], "optional": true},
    {"name": "bytes", "datatype": "BYTES", "shape": [-1], "optional": true},
    {"name": "deep", "datatype": "FP32", "shape": [-1, -1, -1, -1], "optional": true},
    {"name": "scalar", "datatype": "FP64", "shape": [], "optional": true}],
  "outputs": [
    {"name": "bool", "datatype": "BOOL", "shape": [-1]},
    {"name": "uint8", "datatype": "UINT8", "shape": [-1]},
    {"name": "uint16", "datatype": "UINT16", "shape": [-1]},
    {"name": "uint32", "datatype": "UINT32", "shape": [-1]},
    {"name": "uint64", "datatype": "UINT64", "shape": [-1]},
    {"name": "int8", "datatype": "INT8", "shape": [-1]},
    {"name": "int16", "datatype": "INT16", "shape": [-1]},
    {"name": "int32", "datatype": "INT32", "shape": [-1]},
    {"name": "int64", "datatype": "INT64", "shape": [-1]},
    {"name": "fp16", "datatype": "FP16", "shape": [-1]},
    {"name": "fp32", "datatype": "FP32", "shape": [-1]},
    {"name": "fp64", "datatype": "FP64", "shape": [-1]},
    {"name": "bf16", "datatype": "BF16", "shape": [-1]},
    {"name": "bytes", "datatype": "BYTES", "shape": [-1]},
    {"name": "deep", "datatype": "FP32", "shape": [-1, -1, -1, -1]},
    {"name": "scalar", "datatype": "FP64", "shape": []}],
  "parameters": [{"name": "do", "description": "what to do"}]}`;

function process(inputs: List): Outputs | null {
  const text = parameter("do"), what = text == null ? "" : text;
  if (what == "echo") return echo(inputs, false);
  if (what == "reverse") return echo(inputs, true);
  if (what == "fail") {
    const message = first(inputs);
    if (message != null) fail(message.toString());
    return null;
  }
  if (what == "type") return inputs.get<i32>("fp32") == null ? null : new Outputs();
  if (what == "parameter") return parameters(inputs);
  if (what == "log") return writeLog(inputs);
  if (what == "infer") return inferOrFail(inputs);
  if (what == "infer_twice") {
    const answer = ask(inputs);
    if (answer != null) return inferOrFail(answer);
    fail("infer: " + lastError());
    return null;
  }
  if (what == "infer_error") {
    if (ask(inputs) != null) { fail("the model answered"); return null; }
    return new Outputs().addStrings("bytes", [1], [lastError()]);
  }
  if (what == "emit") {
    if (emit(echo(inputs, false))) { fail("the response was sent"); return null; }
    return new Outputs().addStrings("bytes", [1], [lastError()]);
  }
  if (what == "softmax") return kernelSoftmax(inputs);
  if (what == "decode") return decode(inputs);
  fail(`do "${what}" is unknown`);
  return null;
}

function echo(inputs: List, reverse: bool): Outputs {
  const outputs = new Outputs();
  for (let i: u32 = 0; i < inputs.count; i++) {
    const t = inputs.tensor(reverse ? inputs.count - 1 - i : i);
    outputs.place(t.name, t.type, t.shape, t.data, t.size);
  }
  return outputs;
}

// The first text of the input bytes; null after fail.
function first(inputs: List): Span | null {
  const texts = inputs.getBytes("bytes");
  if (texts == null) return null;
  if (texts.length > 0) return texts[0];
  fail("input \"bytes\" is empty");
  return null;
}

function parameters(inputs: List): Outputs | null {
  const names = inputs.getBytes("bytes");
  if (names == null) return null;
  const texts = new Array<string>();
  for (let i = 0; i < names.length; i++) {
    const text = parameter(names[i].toString());
    texts.push(text == null ? "(none)" : text);
  }
  return new Outputs().addStrings("bytes", [texts.length], texts);
}

function writeLog(inputs: List): Outputs | null {
  const lines = inputs.getBytes("bytes");
  if (lines == null) return null;
  for (let i = 0; i < lines.length; i++) log(i % 4, lines[i].toString());
  return new Outputs();
}

// Runs the model that the parameter names; null when it failed.
function ask(inputs: List): List | null {
  const model = parameter("model");
  return infer(model == null ? "" : model, echo(inputs, false));
}

function inferOrFail(inputs: List): Outputs | null {
  const answer = ask(inputs);
  if (answer != null) return echo(answer, false);
  fail("infer: " + lastError());
  return null;
}

function kernelSoftmax(inputs: List): Outputs | null {
  const x = inputs.get<f32>("fp32");
  if (x == null) return null;
  const y = new StaticArray<f32>(x.length);
  if (softmax(x.pointer(0), changetype<usize>(y), 1, x.length) < 0) { fail("softmax: " + lastError()); return null; }
  return new Outputs().add<f32>("fp32", x.shape, y);
}

function decode(inputs: List): Outputs | null {
  const file = first(inputs);
  if (file == null) return null;
  const pixels = new StaticArray<u8>(16);
  if (imageDecode(file.at, file.length, 0, 3, changetype<usize>(pixels), 16) >= 0) return new Outputs();
  fail("decode: " + lastError());
  return null;
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

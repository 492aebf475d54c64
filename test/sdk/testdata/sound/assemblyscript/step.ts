// Reads the sound, brings it to rate unless that is 0, and cuts it into frames: package sdk's test of the sound helpers.

import { List, Outputs, at, describe, fail, intParameter, readSound, run } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{"name": "sound", "version": "1.0.0", "inputs": [{"name": "sound", "datatype": "BYTES", "shape": [1]}],
  "outputs": [{"name": "rate", "datatype": "INT32", "shape": [1]}, {"name": "samples", "datatype": "FP32", "shape": [-1]},
    {"name": "frames", "datatype": "FP32", "shape": [-1]}],
  "parameters": [{"name": "rate"}, {"name": "limit"}, {"name": "width"}, {"name": "hop"}, {"name": "before"}, {"name": "after"}]}`;

function number(name: string): u32 { return <u32>intParameter(name, 0, 0, u32.MAX_VALUE).value; }

function process(inputs: List): Outputs | null {
  const files = inputs.getBytes("sound");
  if (files == null) return null;
  if (files.length == 0) { fail("no sound"); return null; }
  const rate = number("rate"), limit = number("limit");
  let sound = readSound(files[0], limit);
  if (sound != null && rate != 0) sound = sound.resample(rate, limit);
  if (sound == null) return null;
  const frames = sound.frames(number("width"), number("hop"), number("before"), number("after"), limit);
  if (frames == null) return null;
  const outputs = new Outputs().add<i32>("rate", [1], [<i32>sound.rate]);
  return outputs.add<f32>("samples", [sound.samples.length], sound.samples).add<f32>("frames", [frames.length], frames);
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

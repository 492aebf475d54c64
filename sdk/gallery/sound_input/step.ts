// A WAV file of any rate in, the samples of a model's rate out.

import { List, Outputs, at, describe, fail, intParameter, readSound, run } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "sound_input", "version": "1.0.0", "description": "a sound as the input of a model",
  "inputs": [{"name": "sound", "datatype": "BYTES", "shape": [1], "description": "a WAV file"}],
  "outputs": [
    {"name": "samples", "datatype": "FP32", "shape": [1, -1], "description": "from -1 to 1, its channels mixed into one"},
    {"name": "wave", "datatype": "FP32", "shape": [-1], "description": "the same without the first dimension"}],
  "parameters": [
    {"name": "rate", "default": "16000", "description": "samples a second"},
    {"name": "length", "default": "0", "description": "samples that the model takes: a longer sound is cut, a shorter one ends in silence; 0: all of the sound"}]
}`;

const limit = 8 << 20;

function process(inputs: List): Outputs | null {
  const files = inputs.getBytes("sound"), rate = intParameter("rate", 16000, 1000, 768000), length = intParameter("length", 0, 0, limit);
  if (files == null || !rate.ok || !length.ok) return null;
  if (files.length != 1) {
    fail("want one sound");
    return null;
  }
  const sound = readSound(files[0], limit);
  if (sound == null) return null;
  const made = sound.resample(<u32>rate.value, limit);
  if (made == null) return null;
  let samples = made.samples;
  if (length.value > 0) {
    const cut = new StaticArray<f32>(<i32>length.value);
    memory.copy(changetype<usize>(cut), changetype<usize>(samples), 4 * <usize>min(cut.length, samples.length));
    samples = cut;
  }
  return new Outputs().add<f32>("samples", [1, samples.length], samples)
    .add<f32>("wave", [samples.length], samples.slice<StaticArray<f32>>()); // outputs do not overlap
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

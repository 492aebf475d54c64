// STEPNAME: multiplies every element of x. Begin here.

import { List, Outputs, at, describe, numberParameter, run } from "./edgewise";
export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";

const description = `{
  "name": "STEPNAME", "version": "1.0.0",
  "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}],
  "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, -1]}],
  "parameters": [{"name": "factor", "default": "2", "description": "what to multiply by"}]
}`;

function process(inputs: List): Outputs | null {
  const x = inputs.get<f32>("x"), factor = numberParameter("factor", 2, -1e6, 1e6);
  if (x == null || !factor.ok) return null;
  const y = new StaticArray<f32>(x.length);
  for (let i = 0; i < y.length; i++) y[i] = x[i] * <f32>factor.value;
  return new Outputs().add<f32>("y", x.shape, y);
}

export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
export function edgewise_describe(): usize { return describe(description); }

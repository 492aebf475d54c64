// The guest's side of the step ABI for AssemblyScript: what a program needs to become a step of the appliance.
//
// A step is a function from tensors to tensors:
//
//   import { List, Outputs, at, run, describe } from "./edgewise";
//   export { edgewise_step_v1, edgewise_alloc, edgewise_reset } from "./edgewise";
//
//   function process(inputs: List): Outputs | null {
//     const x = inputs.get<f32>("x");
//     if (x == null) return null;                       // get has said why
//     const y = new StaticArray<f32>(x.length);
//     ...
//     return new Outputs().add<f32>("y", x.shape, y);
//   }
//
//   export function edgewise_process(inputs: usize): usize { return run(process(at(inputs))); }
//   export function edgewise_describe(): usize { return describe(`{"inputs": [...], "outputs": [...]}`); }
//
// Inputs are views of the block that the box wrote, and outputs are read where they are: nothing is copied. Both live
// until the request ends.

export * from "./tensor";
export * from "./host";
export * from "./kernel";
export * from "./sound";
export * from "./picture";
export * from "./labels";

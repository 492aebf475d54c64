import type { TensorInfo } from './api';

export type Described = { name: string; inputs: TensorInfo[]; outputs: TensorInfo[]; parameters: { name: string; default?: string; description?: string }[] };

/** Reads what a step says of itself out of its source: the JSON that edgewise_describe returns, which is a constant in every sane step. */
export function described(source: string): Described | null {
  for (const [, text] of source.matchAll(/`(\s*\{[\s\S]*?\}\s*)`/g)) {
    try {
      const d = JSON.parse(text!);
      if (Array.isArray(d.inputs) && Array.isArray(d.outputs)) return { name: d.name ?? '', inputs: d.inputs, outputs: d.outputs, parameters: d.parameters ?? [] };
    } catch {
      // another text
    }
  }
  return null;
}

/** The configuration of a step in which the module describes itself. */
export const selfDescribed = 'backend: "wasm"\n';

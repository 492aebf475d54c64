import { send, type Schemas } from './api';
import { pack, type Tensor } from './tensor';

export type Golden = Schemas['Golden'];
export type Goldens = Schemas['Goldens'];
export type Settings = Schemas['GoldenSettings'];
export type Report = Schemas['GoldenReport'];
export type Rule = Schemas['CompareRule'];
export type Boxes = Schemas['Boxes'];

/** What people call a golden. */
export const titleOf = (g: { id?: string; golden?: string; name: string }): string => g.name || (g.id ?? g.golden ?? '');

/** The numbers that rules of each kind have, and how each of them is typed. */
export const fields = {
  exact: ['share'],
  tolerance: ['absolute', 'relative', 'share'],
  top_k: ['k', 'absolute', 'share'],
  cosine: ['minimum', 'share'],
  boxes: ['minimum', 'share'],
  text: ['distance', 'relative', 'share'],
  ignore: [],
} as const satisfies Record<Rule['kind'], readonly (keyof Rule)[]>;
export type Field = (typeof fields)[Rule['kind']][number];
export const kinds = Object.keys(fields) as Rule['kind'][];
/** The greatest value of a field; those that are not here have none. */
export const most: Partial<Record<Field, number>> = { k: 1000, minimum: 1, distance: 1_000_000, share: 1 };
export const whole: readonly Field[] = ['k', 'distance'];

/** A rule as another kind, with the numbers that this one has, too. */
export function as(kind: Rule['kind'], r: Rule): Rule {
  const kept = fields[kind].flatMap((f) => (r[f] ? [[f, r[f]]] : []));
  return { output: r.output, kind, ...Object.fromEntries(kept), ...(kind === 'boxes' && r.boxes ? { boxes: r.boxes } : {}) };
}

/** A rule or its boxes with another value; an empty one is left out. */
export function set<T extends object>(of: T, field: keyof T, value: unknown): T {
  const { [field]: _, ...rest } = of;
  return (value === '' || value === null || value === undefined || Number.isNaN(value) ? rest : { ...rest, [field]: value }) as T;
}

/** Stores a request with the answer of a version, which gives it once more. */
export async function keep(model: string, version: string, name: string, inputs: Tensor[]): Promise<Golden> {
  const { body, head } = pack(inputs);
  const path = `/api/v1/models/${encodeURIComponent(model)}/goldens?${new URLSearchParams({ name: name.slice(0, 50), version })}`;
  return (await send(path, { body, headers: { 'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': String(head) } })).json();
}

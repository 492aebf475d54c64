import type { Schemas } from './api';

export type Row = Schemas['RequestSummary'];

/** As many requests as the list keeps. */
export const mostRows = 200;

/** Requests of two lists, each once, the latest first. */
export function joined(a: readonly Row[], b: readonly Row[], most = mostRows): Row[] {
  const all = new Map([...a, ...b].map((r) => [r.number, r]));
  return [...all.values()].sort((x, y) => y.number - x.number).slice(0, most);
}

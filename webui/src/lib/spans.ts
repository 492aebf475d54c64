import type { Schemas } from './api';

type Span = Schemas['Span'];

/** Spans in the order of a tree, each with how deep it is; siblings stand in the order of time. */
export function depths(spans: readonly Span[]): { span: Span; depth: number }[] {
  const children = new Map<number, number[]>();
  spans.forEach((s, i) => { const at = s.parent !== undefined && s.parent !== i && s.parent < spans.length ? s.parent : -1; children.set(at, [...(children.get(at) ?? []), i]); });
  const list: { span: Span; depth: number }[] = [];
  const seen = new Set<number>();
  const walk = (at: number, depth: number) => {
    for (const i of [...(children.get(at) ?? [])].sort((a, b) => spans[a]!.start_us - spans[b]!.start_us || a - b)) {
      if (seen.has(i)) continue;
      seen.add(i);
      list.push({ span: spans[i]!, depth });
      walk(i, depth + 1);
    }
  };
  walk(-1, 0);
  return list;
}

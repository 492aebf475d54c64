/** The places of values whose neighbours are missing: no line leads to them, so a chart draws them as points. */
export function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const there = (i: number) => values[i] !== null && values[i] !== undefined;
  return Array.from(values, (_, i) => i).filter((i) => there(i) && !there(i - 1) && !there(i + 1));
}

export type Spread = { least: number; most: number; mean: number; strange: number; bins: number[] };

/** How the numbers of a tensor spread; those that are not finite are only counted. */
export function spread(values: Iterable<number | bigint>, parts = 40): Spread {
  let least = Infinity;
  let most = -Infinity;
  let sum = 0;
  let count = 0;
  let strange = 0;
  const list: number[] = [];
  for (const value of values) {
    const v = Number(value);
    if (!Number.isFinite(v)) {
      strange++;
      continue;
    }
    list.push(v);
    sum += v;
    count++;
    if (v < least) least = v;
    if (v > most) most = v;
  }
  const bins = new Array<number>(parts).fill(0);
  const width = (most - least) / parts || 1;
  for (const v of list) bins[Math.min(parts - 1, Math.floor((v - least) / width))]!++;
  return { least: count ? least : 0, most: count ? most : 0, mean: count ? sum / count : 0, strange, bins };
}

/** How numbers spread: the ends as they are, whole ones of 64 bits also beyond what a double holds. `finite` counts those that are shown. */
export type Spread = { least: number | bigint; most: number | bigint; mean: number; finite: number; strange: number; bins: number[] };

/** The least and the greatest of the finite numbers; Infinity and -Infinity when there are none. */
export function ends(values: Iterable<number | bigint>): [number | bigint, number | bigint] {
  let least: number | bigint = Infinity;
  let most: number | bigint = -Infinity;
  for (const v of values) {
    if (typeof v === 'number' && !Number.isFinite(v)) continue;
    if (v < least) least = v;
    if (v > most) most = v;
  }
  return [least, most];
}

/** How the numbers of a tensor spread; those that are not finite are only counted. The values are gone through twice. */
export function spread(values: Iterable<number | bigint>, parts = 40): Spread {
  const [least, most] = ends(values);
  const bins = new Array<number>(parts).fill(0);
  // Halves: the distance between the ends of FP64 may be more than a number holds.
  const low = Number(least) / 2;
  const width = (Number(most) / 2 - low) / parts || 1;
  let mean = 0;
  let finite = 0;
  let strange = 0;
  for (const value of values) {
    const v = Number(value);
    if (!Number.isFinite(v)) {
      strange++;
      continue;
    }
    finite++;
    mean += v / finite - mean / finite;
    bins[Math.min(parts - 1, Math.floor((v / 2 - low) / width))]!++;
  }
  return { least: finite ? least : 0, most: finite ? most : 0, mean, finite, strange, bins };
}

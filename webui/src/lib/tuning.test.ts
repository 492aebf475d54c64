import { describe, expect, it } from 'vitest';
import { closest, ticks, type Candidate } from './tuning';

describe('ticks', () => {
  it.each([
    [[3, 40], [2, 5, 10, 20, 50]],
    [[5], [2, 5, 10]],
    [[10, 10], [5, 10, 20]],
    [[0.0031, 0.0032], [0.002, 0.005]],
    [[3, 70_000], [2, 10, 100, 1000, 10_000, 100_000]],
  ])('around %j', (values, want) => expect(ticks(values)).toEqual(want));
});

describe('closest', () => {
  const of = (...rates: number[]) => ({ points: rates.map((rate) => ({ rate })) }) as Candidate;
  it('is the point at the rate, by the factor between them', () => expect(closest(of(10, 100, 1000), 40)?.rate).toBe(100));
  it('is nothing where nothing was measured', () => expect(closest(of(), 40)).toBeUndefined());
});

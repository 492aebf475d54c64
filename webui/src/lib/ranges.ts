/** A range of the stored history: its seconds and step, and how far back the range is that it is compared with. */
export type Range = { id: string; seconds: number; step: number; before: number };

const day = 86_400;
export const ranges: Range[] = [
  { id: 'hour', seconds: 3600, step: 60, before: day },
  { id: 'day', seconds: day, step: 300, before: day },
  { id: 'week', seconds: 7 * day, step: 3600, before: 7 * day },
  { id: 'month', seconds: 30 * day, step: 7200, before: 0 },
];

/** The share of requests that failed, in percent; null where there was no request. */
export function errorRate(requests: (number | null)[], errors: (number | null)[]): (number | null)[] {
  return requests.map((r, i) => (r ? (100 * (errors[i] ?? 0)) / r : null));
}

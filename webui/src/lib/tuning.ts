import type { Schemas } from './api';
import { bytes, duration, rate, unit } from './format';
import { msg } from './language.svelte';
import { digits } from './sizes';

export type Tuning = Schemas['Tuning'];
export type Tunings = Schemas['Tunings'];
export type Report = Schemas['TuneReport'];
export type Candidate = Schemas['TuneCandidate'];
export type Objective = Schemas['TuneObjective'];
export type Estimate = Schemas['TuneEstimate'];

/** Whether it has not ended. */
export const active = (t: Tuning): boolean => ['queued', 'waiting', 'measuring'].includes(t.state);

/** The version that the report of a tuning is kept under. */
export const reportedBy = (r: Report): number => r.version || r.base;

/** What a model is tuned for, in words. */
export function objectiveText(o: Objective): string {
  const t = msg.tuning.objectives;
  const w = o.weights;
  const parts = [
    ...(o.p99_ms ? [t.p99(duration(o.p99_ms * 1000))] : []),
    ...(o.throughput ? [t.throughput(rate(o.throughput))] : []),
    ...(o.memory_bytes ? [t.memory(bytes(o.memory_bytes))] : []),
    ...(o.power ? [t.power] : []),
    ...(w ? [t.weights(digits(w.latency ?? 0), digits(w.throughput ?? 0), digits(w.memory ?? 0), digits(w.power ?? 0))] : []),
  ];
  return parts.join(', ') || t.usual;
}

/** A gain, and where it is with 95 % confidence: nowhere else where that is not known. */
export const gainOf = (of: { gain?: number; gain_low?: number; gain_high?: number }): Estimate => ({ value: of.gain ?? 0, low: of.gain_low ?? of.gain ?? 0, high: of.gain_high ?? of.gain ?? 0 });

/** What was found, in a sentence; the reason of the box belongs to it. */
export function conclusion(r: Report): string {
  if (!r.version) return msg.tuning.nothingBetter;
  const { value, low, high } = gainOf(r);
  const gain = high > low ? msg.tuning.within(digits(value), digits(low), digits(high)) : digits(value);
  return (r.live ? msg.tuning.isLive : msg.tuning.isStored)(r.version, gain, r.base);
}

/** A reason in the words of the box, as a sentence. */
export const sentence = (reason: string): string => reason.charAt(0).toUpperCase() + reason.slice(1) + (/[.!?]$/.test(reason) ? '' : '.');

/** Seconds as a tuning is given them. */
export const seconds = (n: number): string => unit(Math.round(n), 'second', 'long');

/** What was measured of a candidate at the rate closest to one. */
export function closest(c: Candidate, rate: number): Candidate['points'][number] | undefined {
  const far = (p: { rate: number }) => Math.max(p.rate / rate, rate / p.rate);
  return c.points.reduce<Candidate['points'][number] | undefined>((best, p) => (!best || far(p) < far(best) ? p : best), undefined);
}

/** Whether requests were ever answered: the box writes so many milliseconds where the queue only grows. */
export const answered = (ms: number): boolean => ms < 1e5;

/** A latency in milliseconds. */
export const latency = (ms: number): string => (answered(ms) ? duration(ms * 1000) : msg.tuning.never);

/** 1, 2 and 5 times the powers of ten, from the last below some values to the first above them: all of them, or only the powers where they are many. */
export function ticks(values: number[]): number[] {
  const least = Math.min(...values), most = Math.max(...values);
  const all: number[] = [];
  for (let power = Math.floor(Math.log10(least)) - 1; power <= Math.ceil(Math.log10(most)); power++) {
    for (const n of [1, 2, 5]) all.push(Number(`${n}e${power}`));
  }
  const from = all.findLastIndex((v) => v < least), to = all.findIndex((v) => v > most);
  const steps = all.slice(Math.max(from, 0), to < 0 ? undefined : to + 1);
  return steps.length > 7 ? steps.filter((v, i) => i === 0 || i === steps.length - 1 || /^1/.test(v.toExponential())) : steps;
}

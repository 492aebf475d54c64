import { language, msg } from './language.svelte';
import { count } from './plural';
import { bytes, digits, sizes, whole } from './sizes';

const tools = (locale: string) => ({
  locale,
  relative: new Intl.RelativeTimeFormat(locale, { numeric: 'auto' }),
  moment: new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' }),
  day: new Intl.DateTimeFormat(locale, { month: 'short', day: 'numeric' }),
  rare: new Intl.NumberFormat(locale, { maximumSignificantDigits: 2 }),
  clock: new Intl.DateTimeFormat(locale, { hourCycle: 'h23', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 }),
});
let made: ReturnType<typeof tools> | null = null;

/** The formats of the page's language, which are dear to make. */
function formats(): ReturnType<typeof tools> {
  if (made?.locale !== language.locale) made = tools(language.locale);
  return made;
}

/** A time in microseconds, in the unit that reads best. */
export function duration(us: number | null | undefined): string {
  if (us === null || us === undefined) return '–';
  if (us < 999.5) return `${digits(us)} µs`;
  if (us < 999.5e3) return `${digits(us / 1e3)} ms`;
  if (us < 5.995e7) return `${digits(us / 1e6)} s`;
  return `${whole(us / 6e7)} min`;
}

export { bytes, count, sizes, whole };

/** Something a second. */
export function rate(n: number): string {
  if (n < 0.1) return formats().rare.format(n);
  return n < 10 ? digits(n) : count(n);
}

export function percent(part: number, places = 0): string {
  return new Intl.NumberFormat(language.locale, { style: 'percent', maximumFractionDigits: places }).format(part);
}

export function at(time: string): string {
  return formats().moment.format(new Date(time));
}

/** A time of day to the millisecond, with its day where that is not the present one. */
export function precise(time: string, now = new Date()): string {
  const t = new Date(time);
  const { clock, day } = formats();
  return t.toDateString() === now.toDateString() ? clock.format(t) : `${day.format(t)}, ${clock.format(t)}`;
}

/** An element of a tensor: short, and as it is where it is a whole number. */
export function element(v: number | bigint): string {
  if (typeof v === 'bigint' || Number.isInteger(v) || !Number.isFinite(v)) return String(v);
  return Math.abs(v) >= 1e-3 && Math.abs(v) < 1e6 ? v.toFixed(4) : v.toExponential(3);
}

const steps: [Intl.RelativeTimeFormatUnit, number][] = [['year', 31536000], ['month', 2592000], ['week', 604800], ['day', 86400], ['hour', 3600], ['minute', 60]];

/** "3 minutes ago", from now on or at a moment given in milliseconds. */
export function ago(time: string, now = Date.now()): string {
  const seconds = (new Date(time).getTime() - now) / 1000;
  for (const [unit, size] of steps) {
    if (Math.abs(seconds) >= size) return formats().relative.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 10 ? msg.shell.justNow : formats().relative.format(Math.trunc(seconds), 'second');
}

/** How long, in words of the largest unit: 2 days, 5 hours. */
export function span(seconds: number): string {
  for (const [name, size] of steps.slice(3)) {
    if (seconds >= size) return unit(Math.floor(seconds / size), name, 'long');
  }
  return unit(Math.max(0, Math.floor(seconds)), 'second', 'long');
}

/** A number with its unit, as the language writes it. */
export function unit(value: number, name: string, unitDisplay: 'short' | 'long' = 'short'): string {
  return new Intl.NumberFormat(language.locale, { style: 'unit', unit: name, unitDisplay, maximumFractionDigits: 0 }).format(value);
}


export function shape(dims: readonly number[] | null): string {
  return dims === null ? msg.shell.anyShape : `[${dims.map((d) => (d < 0 ? '?' : d)).join(', ')}]`;
}

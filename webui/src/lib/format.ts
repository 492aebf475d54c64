const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const clock = new Intl.DateTimeFormat(undefined, { hourCycle: 'h23', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 });

/** Three significant digits at most, without noise behind the point. */
function digits(value: number): string {
  const places = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return new Intl.NumberFormat(undefined, { maximumFractionDigits: places }).format(value);
}

export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let value = n;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? whole.format(value) : digits(value)} ${units[unit]}`;
}

/** A time in microseconds, in the unit that reads best. */
export function duration(us: number | null | undefined): string {
  if (us === null || us === undefined) return '–';
  if (us < 1000) return `${digits(us)} µs`;
  if (us < 1e6) return `${digits(us / 1e3)} ms`;
  if (us < 6e7) return `${digits(us / 1e6)} s`;
  return `${whole.format(us / 6e7)} min`;
}

export function count(n: number): string {
  return n < 10_000 ? whole.format(n) : short.format(n);
}

/** Something a second. */
export function rate(n: number): string {
  if (n === 0) return '0';
  return n < 10 ? digits(Math.max(n, 0.01)) : count(n);
}

export function percent(part: number): string {
  return `${Math.round(part * 100)} %`;
}

export function at(time: string): string {
  return moment.format(new Date(time));
}

export function precise(time: string): string {
  return clock.format(new Date(time));
}

const steps: [Intl.RelativeTimeFormatUnit, number][] = [['year', 31536000], ['month', 2592000], ['week', 604800], ['day', 86400], ['hour', 3600], ['minute', 60]];

/** "3 minutes ago", from now on or at a moment given in milliseconds. */
export function ago(time: string, now = Date.now()): string {
  const seconds = (new Date(time).getTime() - now) / 1000;
  for (const [unit, size] of steps) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return Math.abs(seconds) < 10 ? 'just now' : relative.format(Math.trunc(seconds), 'second');
}

/** How long, in words of the largest unit: 2 days, 5 hours. */
export function span(seconds: number): string {
  const units: [string, number][] = [['day', 86400], ['hour', 3600], ['minute', 60]];
  for (const [unit, size] of units) {
    if (seconds >= size) {
      const n = Math.floor(seconds / size);
      return `${whole.format(n)} ${unit}${n === 1 ? '' : 's'}`;
    }
  }
  return `${whole.format(Math.max(0, seconds))} seconds`;
}

export function shape(dims: readonly number[] | null): string {
  return dims === null ? 'any shape' : `[${dims.map((d) => (d < 0 ? '?' : d)).join(', ')}]`;
}

export function plural(n: number, one: string, many = one + 's'): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

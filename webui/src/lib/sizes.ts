import { language } from './language.svelte';

/** Three significant digits at most, without noise behind the point. */
export function digits(value: number): string {
  const places = Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return new Intl.NumberFormat(language.locale, { maximumFractionDigits: places }).format(value);
}

export function whole(value: number): string {
  return new Intl.NumberFormat(language.locale, { maximumFractionDigits: 0 }).format(value);
}

export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let value = n;
  // What would be rounded to 1,024 is one of the next unit.
  while (Math.abs(value) >= (unit === 0 ? 1024 : 1023.5) && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? whole(value) : digits(value)} ${units[unit]}`;
}

/** A text of the box with its numbers of bytes as sizes. What stands in quotes is a name, and stays. */
export function sizes(text: string): string {
  if (!/\bbytes\b/.test(text)) return text;
  return text.replace(/"(?:[^"\\]|\\.)*"|(?<=^|[\s(])'[^']*'|\b(\d{4,16})\b( more)?( bytes)?/g, (all, number?: string, more = '') => (number ? bytes(Number(number)) + more : all));
}

import type { Schemas } from './api';

export type LogLine = Schemas['LogLine'];

/** As many lines as the page keeps: more would make an old tab slow. */
export const mostLines = 5000;

/** Puts new lines behind old ones, each once, in order, and forgets the oldest. */
export function merge(old: readonly LogLine[], more: readonly LogLine[], most = mostLines): LogLine[] {
  const last = old.at(-1)?.number ?? -1;
  if (more.every((l) => l.number > last)) return [...old, ...[...more].sort((a, b) => a.number - b.number)].slice(-most);
  const all = new Map([...old, ...more].map((l) => [l.number, l]));
  return [...all.values()].sort((a, b) => a.number - b.number).slice(-most);
}

const levels = ['debug', 'info', 'warn', 'error'];

/** Whether a line is as severe as wanted and holds a text. */
export function matches(line: LogLine, level: string, text: string): boolean {
  if (levels.indexOf(line.level) < levels.indexOf(level)) return false;
  const wanted = text.toLowerCase();
  return !wanted || line.message.toLowerCase().includes(wanted) || line.fields.some((f) => `${f.key}=${f.value}`.toLowerCase().includes(wanted));
}

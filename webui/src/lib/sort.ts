/** A column of a table. Those with a value can be sorted by. */
export type Column<T> = { id: string; text: string; value?: (row: T) => string | number | null | undefined; right?: boolean; hidden?: boolean };

/** Sorts by a column, `-id` downwards. Rows without a value come last either way; rows of one value keep their order. */
export function sorted<T>(rows: readonly T[], columns: readonly Column<T>[], by: string, locale?: string): T[] {
  const down = by.startsWith('-');
  const value = columns.find((c) => c.id === by.slice(down ? 1 : 0))?.value;
  if (!value) return [...rows];
  const words = new Intl.Collator(locale, { numeric: true });
  return rows.toSorted((a, b) => {
    const [x, y] = [value(a) ?? null, value(b) ?? null];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    const order = typeof x === 'number' && typeof y === 'number' ? x - y : words.compare(String(x), String(y));
    return down ? -order : order;
  });
}

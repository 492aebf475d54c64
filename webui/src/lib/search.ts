/** What can be found: what it is called, what it is, and other words that lead to it. */
export type Entry = { text: string; kind: string; about: string; to: string; words?: string };

/** How well a word fits an entry, 0 best; -1: not at all. */
function fit(word: string, text: string, more: string): number {
  const at = text.indexOf(word);
  if (text === word) return 0;
  if (at === 0) return 1;
  if (at > 0) return / |_|-|\.|\//.test(text[at - 1]!) ? 2 : 3;
  return more.includes(word) ? 4 : -1;
}

/** The entries that hold every word of a text, the best first and otherwise in their order. */
export function rank(entries: readonly Entry[], asked: string, most: number): Entry[] {
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries.flatMap((entry) => {
    const text = entry.text.toLowerCase();
    const more = `${entry.kind} ${entry.about} ${entry.words ?? ''}`.toLowerCase();
    const fits = words.map((word) => fit(word, text, more));
    return fits.includes(-1) ? [] : [{ entry, score: fits.reduce((sum, n) => sum + n, 0) }];
  });
  return found.sort((a, b) => a.score - b.score).slice(0, most).map((f) => f.entry);
}

/** The entries whose name or description holds every word of a text, best first: the name itself, then names that begin with it. */
export function found<T>(list: readonly T[], text: string, name: (entry: T) => string, about: (entry: T) => string): T[] {
  const wanted = text.trim().toLowerCase();
  const words = wanted.split(/\s+/).filter(Boolean);
  const rank = (n: string) => (n === wanted ? 0 : n.startsWith(wanted) ? 1 : words.every((w) => n.includes(w)) ? 2 : 3);
  const held = list.filter((e) => words.every((w) => `${name(e)} ${about(e)}`.toLowerCase().includes(w)));
  return words.length ? held.sort((a, b) => rank(name(a).toLowerCase()) - rank(name(b).toLowerCase())) : held;
}

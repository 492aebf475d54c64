/** A piece of a text: plain, or in an element. What people wrote is always a plain string in it and never becomes markup. */
export type Piece = string | { tag: 'code' | 'kbd' | 'strong' | 'a'; text: string; href?: string };

const element = (tag: 'code' | 'kbd' | 'strong') => (text: string): Piece => ({ tag, text });
export const code = element('code');
export const kbd = element('kbd');
export const strong = element('strong');
export const link = (text: string, href: string): Piece => ({ tag: 'a', text, href });

/** A text with elements in it, for ui/Rich.svelte: rich`Nothing is at ${code(path)}.` */
export function rich(texts: TemplateStringsArray, ...pieces: Piece[]): Piece[] {
  return texts.flatMap((text, i) => [text, pieces[i] ?? '']).filter((piece) => piece !== '');
}

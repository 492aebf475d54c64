import { language } from './language.svelte';

/** A number of things, short where it is large. */
export function count(n: number): string {
  const options: Intl.NumberFormatOptions = n < 10_000 ? { maximumFractionDigits: 0 } : { notation: 'compact', maximumFractionDigits: 1 };
  return new Intl.NumberFormat(language.locale, options).format(n);
}

/** The form of a text for a number, as the language has them; # stands for the number. */
export function plural(n: number, forms: Partial<Record<Intl.LDMLPluralRule, string>> & { other: string }): string {
  return (forms[new Intl.PluralRules(language.locale).select(n)] ?? forms.other).replace('#', count(n));
}

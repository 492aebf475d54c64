import type { Messages } from '../../lib/language.svelte';
import { plural } from '../../lib/plural';

export const password: Messages['password'] = {
  atLeastCharactersFew: (least) => `Mindestens ${least} Zeichen. Am besten sind einige Wörter, die nur Sie so zusammenstellen.`,
  moreCharacters: (n) => plural(n, { one: 'Noch # Zeichen.', other: 'Noch # Zeichen.' }),
  easyGuessRepeatsItself: 'Leicht zu erraten: Es wiederholt sich.',
  easyGuessListsWell: 'Leicht zu erraten: Es steht in Listen bekannter Passwörter.',
  easyGuessFollowsAlphabet: 'Leicht zu erraten: Es folgt dem Alphabet, den Ziffern oder der Tastatur.',
  fairLongerOneBetter: 'Ausreichend. Ein längeres ist besser.',
  good: 'Gut.',
  strong: 'Stark.',
  veryStrong: 'Sehr stark.',
};

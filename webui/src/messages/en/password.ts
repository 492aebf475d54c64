import { plural } from '../../lib/plural';

export const password = {
  atLeastCharactersFew: (least: number) => `At least ${least} characters. A few words that only you put together are best.`,
  moreCharacters: (n: number) => plural(n, { one: '# more character.', other: '# more characters.' }),
  easyGuessRepeatsItself: 'Easy to guess: it repeats itself.',
  easyGuessListsWell: 'Easy to guess: lists of well-known passwords have it.',
  easyGuessFollowsAlphabet: 'Easy to guess: it follows the alphabet, the digits or the keyboard.',
  fairLongerOneBetter: 'Fair. A longer one is better.',
  good: 'Good.',
  strong: 'Strong.',
  veryStrong: 'Very strong.',
};

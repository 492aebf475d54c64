import { msg } from './language.svelte';

/** The strength of a password from 0 (weak) to 4, with advice. */
export function strength(password: string, least: number): { score: number; text: string } {
  const length = [...password].length;
  if (length === 0) return { score: 0, text: msg.password.atLeastCharactersFew(least) };
  if (length < least) return { score: 0, text: msg.password.moreCharacters(least - length) };
  const different = new Set(password.toLowerCase()).size;
  if (different <= 4 || /^(.+?)\1+$/.test(password)) return { score: 1, text: msg.password.easyGuessRepeatsItself };
  if (wellKnown(password, least)) return { score: 1, text: msg.password.easyGuessListsWell };
  if (sequence(password)) return { score: 1, text: msg.password.easyGuessFollowsAlphabet };
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^A-Za-z0-9]/].filter((k) => k.test(password)).length;
  const score = Math.min(4, 1 + Math.floor((length - least) / 4) + (kinds > 2 ? 1 : 0) + (different > 9 ? 1 : 0));
  return { score, text: ['', msg.password.fairLongerOneBetter, msg.password.good, msg.password.strong, msg.password.veryStrong][score]! };
}

/** What the passwords that most people choose are made of; the first is the example of every text about passwords. */
const common = /correcthorsebatterystaple|password|passw0rd|passwort|welcome|letmein|iloveyou|administrator|admin|edgewise|qwerty|changeme|secret/g;

/** Whether too little is left of a password without its well-known words. */
function wellKnown(password: string, least: number): boolean {
  const letters = password.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
  const rest = letters.replace(common, '');
  return rest !== letters && rest.length < least / 2;
}

function sequence(password: string): boolean {
  const rows = ['abcdefghijklmnopqrstuvwxyz', '01234567890123456789', 'qwertyuiop', 'asdfghjkl', 'zxcvbnm'];
  const text = password.toLowerCase();
  let inside = 0;
  for (let i = 0; i + 3 <= text.length; i++) {
    const part = text.slice(i, i + 3);
    const back = [...part].reverse().join('');
    if (rows.some((row) => row.includes(part) || row.includes(back))) inside++;
  }
  return inside > text.length / 2;
}

import { continuedIndent, delimitedIndent, HighlightStyle, indentNodeProp, LRLanguage, syntaxHighlighting } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { tags as t } from '@lezer/highlight';
import { parser } from '@lezer/javascript';

const colours = HighlightStyle.define([
  { tag: [t.keyword, t.modifier, t.operatorKeyword], color: 'light-dark(#7a3aa8, #cfa0ff)' },
  { tag: [t.string, t.special(t.string)], color: 'light-dark(#18774a, #7fdcae)' },
  { tag: [t.number, t.bool, t.null], color: 'light-dark(#9a5b00, #f0b84b)' },
  { tag: [t.comment], color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [t.typeName, t.className], color: 'light-dark(#0f6b7d, #72d4e6)' },
  { tag: [t.function(t.variableName), t.function(t.propertyName)], color: 'light-dark(#3a54c9, #a5b4ff)' },
]);

/** Syntax colours of AssemblyScript, without completions, which would be larger than the editor itself. */
export function script(): Extension {
  const language = LRLanguage.define({
    name: 'assemblyscript',
    parser: parser.configure({ dialect: 'ts', props: [indentNodeProp.add({ Block: delimitedIndent({ closing: '}' }), ArrayExpression: delimitedIndent({ closing: ']' }), ArgList: delimitedIndent({ closing: ')' }), 'Statement Property': continuedIndent() })] }),
    languageData: { commentTokens: { line: '//', block: { open: '/*', close: '*/' } }, indentOnInput: /^\s*[}\])]$/ },
  });
  return [syntaxHighlighting(colours), language];
}

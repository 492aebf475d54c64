import { parse } from 'svelte/compiler';
import { expect, it } from 'vitest';

/** What the page says belongs into src/messages. These files hold texts for programs, or none. */
const exempt = /\/(messages|api)\/|\.test\.ts$|\.setup\.ts$|\/lib\/(snippets|reference)\.ts$/;
/** Names that are the same in every language, and keys of the keyboard. */
const names = /^(Edgewise|TritonPythonModel|gRPC|curl|JSON|GPU|CPU|[KMGT]iB|v2|API|CSV|OpenAPI|CORS|RGB|BGR|AssemblyScript|Rust|Go|ImageNet|Edge|Escape|Enter|Tab|Home|End|Delete|Backspace|Arrow(Up|Down|Left|Right)|Page(Up|Down)|Files|-----BEGIN …)$/;
const visible = /^(aria-(label|description|valuetext|roledescription)|title|placeholder|alt|label|about|text|hint|data-label)$/;
/** Functions that take a string which no reader sees: selectors, headers, patterns. */
const machine = /^(addEventListener|removeEventListener|querySelector(All)?|closest|getPropertyValue|[gs]etAttribute|setHeader|createElement|on|includes|startsWith|endsWith|split|join|replace(All)?|indexOf|[gs]etItem|removeItem|matchMedia|match|test|exec|get|call|send|fetch|ask|leave)$/;

type Node = { type: string; start: number; [key: string]: any };
/** Two words, or one word with a capital letter. */
const sentence = (s: string) => /\p{L}[\p{L}’'.,:;“”)%…-]*\s+["“(]?[\p{L}\d]/u.test(s) || /^\p{Lu}\p{Ll}+[\p{L} ]*[.:…!?]?$/u.test(s);
const said = (s: string) => /\p{L}{2,}/u.test(s) && !names.test(s.replace(/^[\s·:,.()]+|[\s·:,.()]+$/gu, ''));

function texts(source: string, svelte: boolean): string[] {
  const ast = parse(svelte ? source : `<script lang="ts">${source}</script>`, { modern: true }) as unknown as Node;
  const found: string[] = [];
  const literal = (node: Node) => (node.type === 'TemplateLiteral' ? node.quasis.map((q: Node) => q.value.cooked).join(' ') : String(node.value)).trim();

  const quiet = (parent: Node | undefined, key: string): boolean => {
    if (!parent) return false;
    if (parent.type === 'BinaryExpression') return parent.operator !== '+';
    if (parent.type === 'CallExpression') return machine.test(parent.callee.property?.name ?? parent.callee.name ?? '');
    if (parent.type === 'NewExpression') return !/Error$|Failure$/.test(parent.callee.name ?? '');
    return ['SwitchCase', 'MemberExpression', 'ExpressionStatement', 'TaggedTemplateExpression'].includes(parent.type) || (/Property/.test(parent.type) && key === 'key');
  };

  /** The strings of a script. With `shown` its value is a text of the page, of which one small word is enough. */
  function script(node: Node, parent: Node | undefined, key: string, shown: boolean): void {
    if ((node.type.startsWith('TS') && !/^TS(As|Satisfies|NonNull)/.test(node.type)) || /^(Import|ExportAll)/.test(node.type)) return;
    if ((node.type === 'Literal' && typeof node.value === 'string') || node.type === 'TemplateLiteral') {
      const text = literal(node);
      const code = /[{}<>=#]|: "|^[./]|^--|\bvar\(|:\/\/|^BUG|^-H |\d(px|em|rem|%)\b/.test(text);
      if (!quiet(parent, key) && !code && said(text) && (sentence(text) || (shown && !/^[a-z]+[-/:][a-z-]*/.test(text)))) found.push(text);
    }
    const still = shown && ['ConditionalExpression', 'LogicalExpression', 'TemplateLiteral', 'BinaryExpression'].includes(node.type);
    for (const [name, value] of Object.entries(node)) {
      if (['typeAnnotation', 'typeParameters', 'typeArguments', 'returnType', 'leadingComments', 'trailingComments'].includes(name)) continue;
      for (const child of [value].flat() as Node[]) if (typeof child?.type === 'string') script(child, node, name, still && name !== 'test' && !(node.type === 'BinaryExpression' && node.operator !== '+'));
    }
  }

  function attribute(at: Node, component: boolean): void {
    if (at.expression) script(at.expression, undefined, '', false);
    if (at.type !== 'Attribute' || at.value === true || /^(class|style|id|href|src|type|d|pattern|autocomplete|accept|name|value)$/.test(at.name)) return;
    for (const part of [at.value].flat() as Node[]) {
      if (part.type === 'ExpressionTag') script(part.expression, undefined, '', visible.test(at.name));
      else if (said(part.data) && (visible.test(at.name) || (component && sentence(part.data)))) found.push(part.data);
    }
  }

  function template(node: Node, code: boolean): void {
    if (node.type === 'Text' && !code && said(node.data)) found.push(node.data.trim());
    if (node.expression && node.type !== 'Comment') script(node.expression, undefined, '', node.type === 'ExpressionTag' && !code);
    for (const at of node.attributes ?? []) attribute(at, node.type === 'Component');
    const inside = code || ['code', 'pre', 'kbd'].includes(node.name);
    for (const key of ['fragment', 'consequent', 'alternate', 'body', 'fallback', 'pending', 'then', 'catch']) for (const child of node[key]?.nodes ?? []) template(child, inside);
  }

  for (const part of [ast.instance, ast.module]) if (part) script(part.content, undefined, '', false);
  if (svelte) template(ast, false);
  return found;
}

const files = Object.entries(import.meta.glob<string>('../**/*.{svelte,ts}', { query: '?raw', import: 'default', eager: true })).filter(([path]) => !exempt.test(path.replace('..', '/src').replace(/^\.\//, '/lib/')));

it('finds texts where they stand', () => {
  expect(texts('<script lang="ts">const a = "Not here"; let b = $state("x");</script><p title="Close">Save {b === "two words" ? "all" : ""} <code>GET it</code></p><Empty title="No models" />', true).sort()).toEqual(['Close', 'No models', 'Not here', 'Save', 'all']);
  expect(texts('document.querySelector("main input"); throw new Error("no such file")', false)).toEqual(['no such file']);
});

it.each(files)('%s says nothing that is not in src/messages', (path, source) => {
  expect(texts(source, path.endsWith('.svelte'))).toEqual([]);
});

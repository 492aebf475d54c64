const custom = 0;
const code = 10;
/** What the box keeps of them (wasm/fuel/lines.go): it ignores a section that has more. */
const mostLines = 50_000;
const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/**
 * Appends the lines of the source to a module, from the compiler's source map, as "edgewise step build" appends those of C: the error
 * of a trap names them. The columns of such a map are places in the module.
 */
export function appendLines(module: Uint8Array<ArrayBuffer>, map: string): Uint8Array<ArrayBuffer> {
  const { sources, mappings } = JSON.parse(map) as { sources: string[]; mappings: string };
  const section = codeSection(module);
  const rows: number[] = [];
  let [count, at, source, line] = [0, 0, 0, 0];
  let [before, last] = [section.begin, ''];
  for (const mapping of mappings.split(/[,;]/)) {
    const [columns = 0, files, lines = 0] = numbers(mapping);
    at += columns;
    if (files === undefined) continue;
    source += files;
    line += lines;
    const place = `${source}:${line}`;
    if (at < section.begin || at >= section.end || place === last || count === mostLines) continue;
    rows.push(...u32(at - before), ...u32(source), ...u32(line + 1));
    [before, last, count] = [at, place, count + 1];
  }
  const content = [...name('edgewise.lines'), ...u32(sources.length), ...sources.flatMap(name), ...u32(count)];
  return new Uint8Array([...module, custom, ...u32(content.length + rows.length), ...content, ...rows]);
}

/** Where the content of the code section begins and ends. */
function codeSection(module: Uint8Array): { begin: number; end: number } {
  for (let at = 8; at < module.length; ) {
    const id = module[at]!;
    let size = 0;
    let shift = 0;
    for (at++; ; at++, shift += 7) {
      size += (module[at]! & 0x7f) * 2 ** shift;
      if (module[at]! < 0x80) break;
    }
    at++;
    if (id === code) return { begin: at, end: at + size };
    at += size;
  }
  return { begin: 0, end: 0 };
}

/** The numbers of a mapping: base64 digits of five bits, the lowest first, and of each number the lowest bit is its sign. */
function numbers(mapping: string): number[] {
  const list: number[] = [];
  let [value, shift] = [0, 0];
  for (const c of mapping) {
    const digit = digits.indexOf(c);
    value += (digit & 31) * 2 ** shift;
    if (digit & 32) shift += 5;
    else {
      list.push(value % 2 ? -Math.floor(value / 2) : value / 2);
      [value, shift] = [0, 0];
    }
  }
  return list;
}

function u32(n: number): number[] {
  return n < 0x80 ? [n] : [(n % 0x80) | 0x80, ...u32(Math.floor(n / 0x80))];
}

function name(text: string): number[] {
  const bytes = new TextEncoder().encode(text);
  return [...u32(bytes.length), ...bytes];
}

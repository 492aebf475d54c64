import { msg } from './language.svelte';

/** A file and its path in an archive. */
export type Entry = { path: string; file: Blob };

const block = 512;
const encoder = new TextEncoder();

/**
 * Makes a tar archive of files without reading them: the parts of the answer refer to the files, so gigabytes cost nothing
 * until they are sent. The same files in the same order give the same bytes, so an interrupted upload can go on.
 */
export function tar(entries: Entry[]): Blob {
  const parts: BlobPart[] = [];
  for (const { path, file } of entries) {
    parts.push(header(path, file.size), file);
    const rest = file.size % block;
    if (rest) parts.push(new Uint8Array(block - rest));
  }
  parts.push(new Uint8Array(2 * block));
  return new Blob(parts, { type: 'application/x-tar' });
}

function header(path: string, size: number): Uint8Array<ArrayBuffer> {
  const name = encoder.encode(path);
  if (name.length <= 100) return ustar(path, '', size, '0');
  const cut = path.lastIndexOf('/', 155);
  const prefix = path.slice(0, cut);
  const last = path.slice(cut + 1);
  if (cut > 0 && encoder.encode(prefix).length <= 155 && encoder.encode(last).length <= 100) return ustar(last, prefix, size, '0');
  throw new Error(msg.shell.pathTooLongForArchive(path));
}

function ustar(name: string, prefix: string, size: number, type: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(block);
  const put = (text: string, offset: number) => bytes.set(encoder.encode(text), offset);
  put(name, 0);
  put('0000644\0', 100);
  put('0000000\0', 108);
  put('0000000\0', 116);
  putSize(bytes, size);
  put('00000000000\0', 136);
  put('        ', 148);
  put(type, 156);
  put('ustar\0' + '00', 257);
  put(prefix, 345);
  const sum = bytes.reduce((a, b) => a + b, 0);
  put(sum.toString(8).padStart(6, '0') + '\0 ', 148);
  return bytes;
}

/** Eleven octal digits, or, from 8 GiB on, a binary number with the highest bit set. */
function putSize(bytes: Uint8Array, size: number): void {
  const octal = size.toString(8);
  if (octal.length <= 11) {
    bytes.set(encoder.encode(octal.padStart(11, '0') + '\0'), 124);
    return;
  }
  bytes[124] = 0x80;
  for (let i = 135, rest = size; i > 124 && rest > 0; i--, rest = Math.floor(rest / 256)) bytes[i] = rest % 256;
}

import { ends } from './spread';
import type { Tensor } from './tensor';

/** A picture that outputs are drawn on: the size of its tensor, if it was scaled to one, and how. */
export type Drawn = { blob: Blob | null; pixels: { width: number; height: number } | null; fit: string };

const none: Drawn = { blob: null, pixels: null, fit: '' };
/** What files of pictures begin with. */
const kinds: [string, number[]][] = [['image/jpeg', [0xff, 0xd8, 0xff]], ['image/png', [0x89, 0x50, 0x4e, 0x47]], ['image/webp', [0x52, 0x49, 0x46, 0x46]], ['image/gif', [0x47, 0x49, 0x46]]];

/** A file of a picture that is a tensor, or one of the elements of it. */
function encoded(t: Tensor): Blob | null {
  const bytes = t.datatype === 'BYTES' ? (t.data as Uint8Array[])[0] : t.datatype === 'UINT8' ? (t.data as Uint8Array) : undefined;
  const kind = kinds.find(([, head]) => head.every((b, i) => bytes?.[i] === b));
  return kind ? new Blob([bytes as Uint8Array<ArrayBuffer>], { type: kind[0] }) : null;
}

/** How a tensor of pixels stands: planes of three or one, or three numbers for each pixel. */
export function planes(shape: readonly number[]): { width: number; height: number; count: number; first: boolean } | null {
  const s = shape.slice(shape.length > 3 ? shape.length - 3 : 0);
  if (s.length !== 3 || shape.slice(0, -3).some((d) => d !== 1)) return null;
  const [a, b, c] = s as [number, number, number];
  if ((a === 1 || a === 3) && b > 4 && c > 4) return { width: c, height: b, count: a, first: true };
  if ((c === 1 || c === 3) && a > 4 && b > 4) return { width: b, height: a, count: c, first: false };
  return null;
}

/** The picture among the inputs of a request: a file of one, or pixels, scaled from the least to the largest number. */
export async function drawnOf(inputs: readonly Tensor[]): Promise<Drawn> {
  for (const t of inputs) {
    const blob = encoded(t);
    if (blob) return { blob, pixels: null, fit: '' };
  }
  for (const t of inputs) {
    const p = t.datatype === 'BYTES' ? null : planes(t.shape);
    if (!p || p.width > 4096 || p.height > 4096) continue;
    const data = t.data as Float32Array;
    const [least, most] = ends(data).map(Number) as [number, number];
    const image = new ImageData(p.width, p.height);
    const n = p.width * p.height;
    for (let i = 0; i < n; i++) {
      for (let c = 0; c < 3; c++) {
        const of = Math.min(c, p.count - 1);
        image.data[4 * i + c] = ((Number(data[p.first ? of * n + i : i * p.count + of]) - least) * 255) / (most - least || 1);
      }
      image.data[4 * i + 3] = 255;
    }
    const canvas = new OffscreenCanvas(p.width, p.height);
    canvas.getContext('2d')!.putImageData(image, 0, 0);
    return { blob: await canvas.convertToBlob(), pixels: { width: p.width, height: p.height }, fit: '' };
  }
  return none;
}

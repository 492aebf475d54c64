// Pictures for scenarios: a PNG file of one colour.
import { crc32, deflateSync } from 'node:zlib';

export function png(width, height, [red, green, blue]) {
  const row = Buffer.concat([Buffer.from([0]), Buffer.alloc(3 * width, Buffer.from([red, green, blue]))]);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const chunk = (name, body) => {
    const data = Buffer.concat([Buffer.from(name), body]);
    const length = Buffer.alloc(4);
    const sum = Buffer.alloc(4);
    length.writeUInt32BE(body.length);
    sum.writeUInt32BE(crc32(data));
    return Buffer.concat([length, data, sum]);
  };
  return Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]), chunk('IHDR', head), chunk('IDAT', deflateSync(Buffer.concat(Array(height).fill(row)))), chunk('IEND', Buffer.alloc(0))]);
}

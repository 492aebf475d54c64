// Archives for scenarios, also such as no honest program makes.
import { crc32, deflateRawSync } from 'node:zlib';

/** A tar archive of files by path, whatever the path. */
export function tar(files) {
  const parts = Object.entries(files).flatMap(([path, content]) => {
    const body = Buffer.from(content);
    const head = Buffer.alloc(512);
    head.write(path, 0);
    for (const [at, text] of [[100, '0000644'], [108, '0000000'], [116, '0000000'], [124, body.length.toString(8).padStart(11, '0')], [136, '00000000000'], [148, '        '], [156, '0'], [257, 'ustar'], [263, '00']]) head.write(text, at);
    head.write(head.reduce((a, b) => a + b, 0).toString(8).padStart(6, '0') + '\0 ', 148);
    return [head, body, Buffer.alloc((512 - (body.length % 512)) % 512)];
  });
  return Buffer.concat([...parts, Buffer.alloc(1024)]);
}

/** A zip archive of one file. */
export function zip(name, body) {
  const packed = deflateRawSync(body, { level: 9 });
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt16LE(8, 4);
  common.writeUInt32LE(crc32(body), 10);
  common.writeUInt32LE(packed.length, 14);
  common.writeUInt32LE(body.length, 18);
  common.writeUInt16LE(name.length, 22);
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), packed]);
  const central = Buffer.concat([Buffer.from('PK\x01\x02\x14\x00'), common, Buffer.alloc(14), Buffer.from(name)]);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(1, 4);
  end.writeUInt16LE(1, 6);
  end.writeUInt32LE(central.length, 8);
  end.writeUInt32LE(local.length, 12);
  return Buffer.concat([local, central, Buffer.from('PK\x05\x06'), end]);
}

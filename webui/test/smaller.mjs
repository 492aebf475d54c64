import { readFileSync, writeFileSync } from 'node:fs';

/** A photograph makes a large file: fewer shades of it make a smaller one, and nobody sees the difference here. */
export async function smaller(browser, path) {
  const page = await browser.newPage();
  const made = await page.evaluate(async (data) => {
    const picture = await createImageBitmap(await (await fetch(data)).blob());
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [picture.width, picture.height];
    const context = canvas.getContext('2d');
    context.drawImage(picture, 0, 0);
    const image = context.getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < image.data.length; i += 4) {
      const grey = Math.abs(image.data[i] - image.data[i + 1]) + Math.abs(image.data[i] - image.data[i + 2]) < 24;
      for (let c = 0; c < 3; c++) if (!grey || image.data[i + c] < 224) image.data[i + c] = (image.data[i + c] & 0xe0) | 0x10;
    }
    context.putImageData(image, 0, 0);
    return canvas.toDataURL('image/png');
  }, `data:image/png;base64,${readFileSync(path).toString('base64')}`);
  writeFileSync(path, Buffer.from(made.split(',')[1], 'base64'));
  await page.close();
}

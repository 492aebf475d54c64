// 1 GiB, a folder that is dropped: the connection is cut, the box killed and started again, the page loaded again and the same folder
// chosen; and a file that is no model.
import { createHash } from 'node:crypto';
import { copyFileSync, createReadStream, mkdirSync, mkdtempSync, rmSync, writeFileSync, openSync, writeSync, closeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cable, Visitor, check, drop, equal, inspect, patience, root, scenario, until } from './harness.mjs';

const MB = 1 << 20;
const ballast = Number(process.env.UPLOAD_MB ?? 1024) * MB;

/** A model's folder in Triton's layout, with a large file that belongs to it. */
function folder() {
  const base = mkdtempSync(join(tmpdir(), 'edgewise-upload-'));
  mkdirSync(join(base, 'heavy/1'), { recursive: true });
  copyFileSync(join(root, 'dist/demo/models/ocr_direction/1/model.onnx'), join(base, 'heavy/1/model.onnx'));
  const block = Buffer.alloc(8 * MB);
  for (let i = 0; i < block.length; i += 4) block.writeUInt32LE((i * 2654435761) >>> 0, i);
  const file = openSync(join(base, 'heavy/1/calibration.bin'), 'w');
  for (let written = 0; written < ballast; written += block.length) {
    block.writeUInt32LE(written >>> 0, 0);
    writeSync(file, block);
  }
  closeSync(file);
  return base;
}

export default () => scenario({}, async (box, outer) => {
  const admin = await box.claim();
  const cable = await Cable.to(box);
  const visitor = await Visitor.start(box, { browser: outer.browser, url: cable.url });
  visitor.allow(/Failed to load resource|status of (409|423)/);
  const { page } = visitor;
  await visitor.login();
  await visitor.open('/models', 'Models');

  // A file that only has the name of a model: the step that failed says why, and nothing is stored.
  const base = folder();
  writeFileSync(join(base, 'report.onnx'), '%PDF-1.7\n' + 'not a model '.repeat(1000));
  await drop(page, page.getByRole('main'), [join(base, 'report.onnx')]);
  const wrong = page.getByRole('article', { name: 'Job of report.onnx' });
  await wrong.getByText('Read the model failed').waitFor();
  const problems = await inspect(page, 'a job that failed');
  equal(await admin.call('GET', '/models'), [], 'models after a wrong file');
  await wrong.getByRole('button', { name: 'Discard' }).click();
  await wrong.waitFor({ state: 'detached' });

  // A large one: the line is cut, then the box is killed in the middle and comes back; the upload goes on by itself.
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(join(base, 'heavy/1/calibration.bin'))) hash.update(chunk);
  const session = await visitor.context.newCDPSession(page);
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 120 * MB });
  await drop(page, page.getByRole('main'), [join(base, 'heavy')]);
  const transfer = page.getByRole('article', { name: 'Upload of heavy.tar' });
  const sent = async () => Number(await transfer.getByRole('progressbar').getAttribute('value').catch(() => 0)) || 0;
  await until('a twentieth to be sent', async () => (await sent()) > ballast / 20);
  const before = await sent();
  cable.cut();
  await until('the upload to go on behind the cut', async () => (await sent()) > before + 8 * MB);
  await until('a tenth to be sent', async () => (await sent()) > ballast / 10);
  await box.kill();
  await transfer.getByText(/Connection lost/).waitFor();
  problems.push(...(await inspect(page, 'an upload whose box is away')));
  await box.run();
  await until('the upload to go on', async () => (await transfer.getAttribute('data-state')) === 'sending' && (await sent()) > ballast / 8);

  // The page is left; the same folder, chosen again, goes on where it was.
  await page.reload();
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  await page.locator('#choose-folder').setInputFiles(join(base, 'heavy'));
  await transfer.getByText('resumed').waitFor();
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  const job = page.getByRole('article', { name: 'Job of heavy.tar' });
  await job.getByText('Ready to activate').waitFor({ timeout: 3 * patience });
  problems.push(...(await inspect(page, 'a job that waits')));
  await job.getByRole('button', { name: 'Activate' }).click();
  await job.getByText('Done').waitFor({ timeout: 2 * patience });
  const stored = (await admin.call('GET', '/models/heavy')).versions[0].files.find((f) => f.path.endsWith('calibration.bin'));
  check(stored, 'the large file is not in the store');
  equal([stored.size, stored.digest], [ballast, hash.digest('hex')], 'what arrived');
  equal(problems, [], 'what axe found');
  rmSync(base, { recursive: true, force: true });
  await visitor.stop();
  cable.close();
});

// The network goes away for half a minute: nothing is shown as live that is not, and an upload goes on where it was.
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cable, Visitor, equal, patience, scenario, until } from './harness.mjs';
import { times } from './onnx.mjs';

const MB = 1 << 20;
const off = 30_000;

export default () => scenario({}, async (box, outer) => {
  const admin = await box.claim();
  const cable = await Cable.to(box);
  const visitor = await Visitor.start(box, { browser: outer.browser, url: cable.url });
  visitor.allow(/ERR_|Failed to load resource/);
  const { page } = visitor;
  await visitor.login();
  await visitor.open('/models', 'Models');
  await page.getByText('Live', { exact: true }).waitFor();

  const base = mkdtempSync(join(tmpdir(), 'edgewise-network-'));
  mkdirSync(join(base, 'far/1'), { recursive: true });
  writeFileSync(join(base, 'far/1/model.onnx'), times(2));
  const ballast = Buffer.alloc(96 * MB, 'so much to say ');
  writeFileSync(join(base, 'far/1/notes.bin'), ballast);
  const session = await visitor.context.newCDPSession(page);
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 12 * MB });
  await page.locator('#choose-folder').setInputFiles(join(base, 'far'));
  const transfer = page.getByRole('article', { name: 'Upload of far.tar' });
  const sent = async () => Number(await transfer.getByRole('progressbar').getAttribute('value').catch(() => 0)) || 0;
  await until('some of it to be sent', async () => (await sent()) > 8 * MB);

  // Pulled, not cut: nobody is told, and nothing arrives.
  cable.pull();
  const began = Date.now();
  await page.getByText(/^Last update \d+ s ago$/).waitFor();
  await page.getByText(/The page shows the last known state/).waitFor();
  await page.waitForTimeout(Math.max(0, off - (Date.now() - began)));
  const before = await sent();
  cable.plug();
  await page.getByText('Live', { exact: true }).waitFor();
  await until('the upload to go on', async () => (await sent()) > before || (await transfer.count()) === 0);

  // Cut: the browser is told, and tries again by itself. So it does when the machine has no network at all.
  if (await transfer.count()) {
    cable.cut();
    await until('the upload to go on', async () => (await transfer.count()) === 0 || ((await transfer.getAttribute('data-state')) === 'sending' && (await sent()) > before + 4 * MB));
  }
  await session.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await visitor.context.setOffline(true);
  await page.waitForTimeout(3000);
  await visitor.context.setOffline(false);
  const job = page.getByRole('article', { name: 'Job of far.tar' });
  await job.getByText('Ready to activate').waitFor({ timeout: 2 * patience });
  await job.getByRole('button', { name: 'Activate' }).click();
  await job.getByText('Done').waitFor({ timeout: patience });
  const file = (await admin.call('GET', '/models/far')).versions[0].files.find((f) => f.path.endsWith('notes.bin'));
  equal([file.size, file.digest], [ballast.length, createHash('sha256').update(ballast).digest('hex')], 'what arrived');
  rmSync(base, { recursive: true, force: true });
  await visitor.stop();
  cable.close();
});

// Uploads that cannot be: two at once of which one is cancelled, a disk without room, archives that lie. Each says why, and
// nothing of it is left.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { tar, zip } from './archive.mjs';
import { check, equal, patience, scenario, until } from './harness.mjs';
import { reaching, times } from './onnx.mjs';

const MB = 1 << 20;
const spare = 3072 * MB; // what the box may use of the disk

function freeAt(folder) {
  const s = statfsSync(folder);
  return s.bavail * s.bsize;
}

// A disk that nobody else fills or empties meanwhile: memory, where there is enough of it.
const disk = existsSync('/dev/shm') && freeAt('/dev/shm') > 2 * spare ? '/dev/shm' : tmpdir();
const free = () => freeAt(disk);

export default () => scenario({ disk, set: { 'store.reserve_bytes': String(Math.max(0, free() - spare)) } }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/Failed to load resource|ERR_/);
  const { page } = visitor;
  const base = mkdtempSync(join(disk, 'edgewise-refusals-'));
  await visitor.login();
  await visitor.open('/models', 'Models');
  const file = (name, body) => { writeFileSync(join(base, name), body); return join(base, name); };
  const choose = (...paths) => page.locator('#choose-file').setInputFiles(paths);
  const session = await visitor.context.newCDPSession(page);
  const upward = (bytes) => session.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });

  // Archives that lie, and models that reach out of their folder.
  for (const [name, body, step, why] of [
    ['escape.tar', tar({ '../../escape/1/model.onnx': times(2) }), 'Unpack', /refused/],
    ['bomb.zip', zip('bomb/1/model.onnx', Buffer.alloc(300 * MB)), 'Unpack', /holds more than [\d.]+ MiB/],
    ['damaged.zip', Buffer.from('PK\x03\x04 and then nothing'), 'Unpack', /no zip archive/],
    ['reaching.onnx', reaching('../../../etc/passwd'), 'Read the model', /passwd/],
    ['picture.onnx', Buffer.from('\x89PNG\r\n\x1a\n not a model'), 'Read the model', /./],
  ]) {
    await choose(file(name, body));
    const job = page.getByRole('article', { name: `Job of ${name}` });
    const alert = job.getByRole('alert');
    await alert.getByText(`${step} failed`).waitFor();
    check(why.test(await alert.innerText()), `${name}: the page says ${await alert.innerText()}`);
    await job.getByRole('button', { name: 'Discard' }).click();
    await job.waitFor({ state: 'detached' });
  }
  await choose(file('notes.txt', 'hello'));
  await page.getByText(/notes.txt is not a file that the box accepts/).waitFor();
  equal(await admin.call('GET', '/models'), [], 'models after what was refused');

  // Two at once; one is cancelled, taken back, and cancelled for good. The other one does not notice.
  for (const name of ['wanted', 'unwanted']) {
    mkdirSync(join(base, `${name}/1`), { recursive: true });
    writeFileSync(join(base, `${name}/1/model.onnx`), times(3));
    writeFileSync(join(base, `${name}/1/ballast.bin`), Buffer.alloc(40 * MB, name));
  }
  await upward(4 * MB);
  const transfer = (name) => page.getByRole('article', { name: `Upload of ${name}.tar` });
  for (const name of ['wanted', 'unwanted']) await page.locator('#choose-folder').setInputFiles(join(base, name));
  const sent = async (name) => Number(await transfer(name).getByRole('progressbar').getAttribute('value', { timeout: 1000 }).catch(() => 0)) || 0;
  await until('both to be under way', async () => (await sent('wanted')) > 0 && (await sent('unwanted')) > 0);
  equal((await admin.call('GET', '/uploads')).length, 2, 'uploads on the box');
  await transfer('unwanted').getByRole('button', { name: 'Cancel' }).click();
  await transfer('unwanted').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await until('it to go on', async () => (await transfer('unwanted').getAttribute('data-state')) === 'sending');
  await transfer('unwanted').getByRole('button', { name: 'Cancel' }).click();
  await until('it to be gone from the box', async () => (await admin.call('GET', '/uploads')).every((u) => u.filename !== 'unwanted.tar'));
  // The speed is not changed while a request is under way: the browser then may forget its answer.
  await until('the other one to be staged', async () => (await admin.call('GET', '/jobs')).some((j) => j.filename === 'wanted.tar' && j.state === 'staged'));
  await upward(1024 * MB);

  // More than there is room for is refused before a byte is sent, with what is free.
  const large = file('large.onnx', '');
  truncateSync(large, 2 * spare);
  await choose(large);
  const refused = page.getByRole('article', { name: 'Upload of large.onnx' });
  await refused.getByText('Stopped').waitFor();
  const said = await refused.getByRole('alert').innerText();
  check(/free|left/.test(said) && /\d/.test(said), `the page says ${said}`);
  equal(await sent('large'), 0, 'bytes that were sent of it');
  await refused.getByRole('button', { name: 'Cancel' }).click();

  // The disk fills up in the middle: what has arrived stays, and goes on when there is room again.
  truncateSync(large, 400 * MB);
  await upward(24 * MB);
  await until('the box to have let go of it', async () => (await admin.call('GET', '/uploads')).every((u) => u.filename !== 'large.onnx'));
  await choose(large);
  await until('some of it to be sent', async () => Number(await refused.getByRole('progressbar').getAttribute('value', { timeout: 1000 }).catch(() => 0)) > 24 * MB);
  const filler = join(base, 'filler');
  const filled = spawnSync('fallocate', ['-l', String(Math.max(MB, free() - box.reserve() + 64 * MB)), filler]);
  check(filled.status === 0, `the disk could not be filled: ${filled.stderr}`);
  await refused.getByText('Stopped').waitFor();
  const full = await refused.getByRole('alert').innerText();
  check(/free|left/.test(full), `the page says ${full}`);
  rmSync(filler);
  await upward(1024 * MB);
  await refused.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('article', { name: 'Job of large.onnx' }).getByText('Read the model failed').waitFor({ timeout: 2 * patience });
  equal((await admin.call('GET', '/models')).length, 0, 'models at the end');
  rmSync(base, { recursive: true, force: true });
});

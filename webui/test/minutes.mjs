// node minutes.mjs ADDRESS CODE FOLDER: what docs/guides/first-five-minutes.md tells a reader to do, in its words and order, on a
// box that "make run" has started, with a picture of each step and what each took.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Visitor, check, drop, patience, root, sample } from './harness.mjs';

const [address, code, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const visitor = await Visitor.start({ url: address, options: {} }, { viewport: { width: 1180, height: 820 } });
const { page } = visitor;
const began = Date.now();
let last = began;
const shot = async (name, type = 'png') => {
  await page.waitForTimeout(600);
  await page.screenshot({ path: join(folder, `${name}.${type}`), type, ...(type === 'jpeg' ? { quality: 88 } : {}) }); // photographs
  console.log(`${name}: ${((Date.now() - last) / 1000).toFixed(1)} s`);
  last = Date.now();
};
try {
  // 2. Claim it.
  await page.goto(address);
  await page.getByLabel('Claim code').fill(code);
  await page.getByLabel('Your name on this box').fill('anna');
  await page.getByLabel('Password', { exact: true }).fill('violet ladder over quiet harbour');
  await shot('minutes-1-claim');
  await page.getByRole('button', { name: 'Claim this box' }).click();
  await page.getByLabel('Name of this box').fill('Line 3 camera');
  await shot('minutes-2-name');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: /connection is/ }).waitFor();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Add a model' }).click();

  // 3. Add a model: here a copy of one of the demo's, as a file of the reader's own.
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  const mine = join(mkdtempSync(join(tmpdir(), 'edgewise-minutes-')), 'direction.onnx');
  copyFileSync(join(root, 'dist/demo/models/ocr_direction/1/model.onnx'), mine);
  await drop(page, page.getByRole('main'), [mine]);
  const job = page.getByRole('article', { name: 'Job of direction.onnx' });
  await job.getByText('Ready to activate').waitFor();
  await shot('minutes-3-understood');
  await job.getByRole('button', { name: 'Activate' }).click();
  await job.getByRole('link', { name: /^Try/ }).waitFor();
  await shot('minutes-4-active');

  // 4. Ask it.
  await page.getByRole('link', { name: 'Models', exact: true }).first().click();
  await page.getByRole('link', { name: 'faces', exact: true }).click();
  await page.getByRole('link', { name: 'Try it', exact: true }).click();
  await page.locator('input[type=file]').setInputFiles(sample('face.jpg'));
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.locator('[data-boxes]').waitFor({ timeout: patience });
  await shot('minutes-5-answer', 'jpeg');
  console.log(`from the address to the answer: ${((Date.now() - began) / 1000).toFixed(1)} s`);
  const call = await page.getByLabel('The call in curl').innerText();
  await page.getByRole('link', { name: 'Settings, Keys' }).click();
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByLabel('Name').fill('my first key');
  await page.getByRole('button', { name: 'Create the key' }).click();
  const secret = (await page.getByRole('region', { name: 'The key' }).innerText()).trim();
  await page.getByRole('button', { name: 'Done' }).click();
  // The page does not know where the picture lies on the reader's disk.
  const answer = spawnSync('bash', ['-c', call], { cwd: join(root, 'configs/demo/samples'), env: { ...process.env, EDGEWISE_KEY: secret }, encoding: 'utf8' });
  check(/"name":"box"/.test(answer.stdout), `the call in curl: ${call}\n${answer.stdout}${answer.stderr}`);
  console.log(call, '\n', answer.stdout.slice(0, 200));

  // 5. Where did the time go?
  await page.getByRole('link', { name: 'Activity', exact: true }).first().click();
  await page.getByText('Queue', { exact: true }).first().waitFor();
  await shot('minutes-6-activity');
  await visitor.stop();
} catch (failure) {
  await page.screenshot({ path: join(folder, 'failed.png') });
  console.error(failure);
  process.exitCode = 1;
}
process.exit();

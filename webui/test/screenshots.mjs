// node screenshots.mjs FOLDER: the pictures of the documentation, of a box with the demo's models and some traffic. Those of the first
// five minutes are taken by minutes.mjs, on a box of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Box, Visitor, check, root, sample, until } from './harness.mjs';

const folder = process.argv[2];
const box = await Box.start({ imports: ['dist/demo/models', 'dist/demo/pipelines'] });
const face = readFileSync(sample('face.jpg'));
const text = readFileSync(sample('text.png'));
const shot = (page, name, options = {}) => page.screenshot({ path: join(folder, name + '.png'), ...options });
try {
  const admin = await box.claim();
  await admin.call('PATCH', '/settings', { name: 'Line 3 camera' });
  const config = readFileSync(join(root, 'configs/demo/pipelines/faces/config.pbtxt'), 'utf8').replace('# Faces', '# Faces, second edition:');
  await admin.fetch('/api/v1/models/faces/versions?file=config.pbtxt', { method: 'POST', body: config, headers: { 'Content-Type': 'application/octet-stream' } });
  let running = true;
  const ask = (model, body, type) => admin.fetch(`/v2/models/${model}/infer`, { method: 'POST', body, headers: { 'Content-Type': type } }).then((r) => r.arrayBuffer()).catch(() => {});
  const traffic = (async () => {
    for (let i = 0; running; i++) {
      await ask('faces', face, 'image/jpeg');
      if (i % 6 === 0) await ask('text', text, 'image/png');
      await new Promise((r) => setTimeout(r, 120 + 100 * Math.sin(i / 6)));
    }
  })();

  const visitor = await Visitor.start(box, { viewport: { width: 1280, height: 860 } });
  const { page } = visitor;
  visitor.context.setDefaultTimeout(240_000); // nobody waits for these
  const dark = async () => { await page.emulateMedia({ colorScheme: 'dark' }); await page.waitForTimeout(400); };
  await visitor.login();
  await page.waitForTimeout(100_000); // as long as the small curves are
  await page.getByText('Serving').first().waitFor();
  await shot(page, 'home-light');

  await visitor.open('/models/faces/try', 'faces');
  await page.locator('input[type=file]').setInputFiles(sample('face.jpg'));
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.locator('[data-boxes]').waitFor();
  await page.setViewportSize({ width: 1280, height: 720 });
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(folder, 'try-light.jpeg'), type: 'jpeg', quality: 88 });
  await page.setViewportSize({ width: 1280, height: 860 });

  await visitor.open('/models/face/configuration', 'face');
  await page.getByRole('button', { name: 'Set the instances' }).click();
  await page.getByLabel('Instances of group 1').fill('2');
  await page.mouse.move(0, 0);
  await page.waitForTimeout(1000);
  await shot(page, 'configuration-light');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'A page, model, version, step, ensemble or setting' }).fill('face');
  await page.getByRole('dialog').getByRole('option').first().waitFor();
  await page.waitForTimeout(500);
  await shot(page, 'search-light');
  await page.keyboard.press('Escape');

  await admin.call('POST', '/models/faces/rollout', { version: 1, stages: [{ percent: 25, requests: 50 }, { percent: 50, requests: 2000 }] });
  await until('the second stage', async () => (await admin.call('GET', '/models/faces/rollout')).candidate.requests > 90, 600_000);
  await visitor.open('/models/faces/versions', 'faces');
  await page.getByText('stage 2 of 2: 50 % of the requests').waitFor();
  await page.waitForTimeout(1000);
  await shot(page, 'rollout-light');
  await admin.call('POST', '/models/faces/rollout/stop');

  const draft = await admin.call('POST', '/drafts', { name: 'faces', config: (await admin.call('GET', '/ensembles')).find((e) => e.name === 'faces').config });
  await visitor.open(`/ensembles/${draft.id}`, 'faces');
  await page.locator('input[type=file]').setInputFiles(sample('face.jpg'));
  await page.getByRole('button', { name: 'Run the draft' }).click();
  await page.getByText(/in all$/).waitFor();
  await dark();
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForTimeout(600);
  await shot(page, 'ensemble-dark');
  await visitor.open('/steps/edit?from=limit', 'limit');
  await page.getByRole('button', { name: 'Compile and run' }).click();
  await page.getByRole('article', { name: 'Output score' }).waitFor({ timeout: 600_000 });
  await page.getByRole('button', { name: 'Compile and run' }).click(); // the compiler is there by now
  await page.waitForTimeout(6000);
  await page.setViewportSize({ width: 1280, height: 1080 });
  await page.waitForTimeout(500);
  await shot(page, 'step-dark');
  await page.setViewportSize({ width: 1280, height: 860 });

  const phone = await Visitor.start(box, { browser: visitor.browser, viewport: { width: 390, height: 844 }, context: { hasTouch: true, isMobile: true, storageState: await visitor.context.storageState() } });
  await phone.page.goto(box.url + '/models');
  await phone.page.getByText('Serving').first().waitFor();
  await phone.page.waitForTimeout(6000);
  await shot(phone.page, 'phone-light');
  await phone.context.close();
  running = false;
  await traffic;
  await visitor.stop();
} finally {
  await box.stop();
}

// What a reader of docs/flash.md sees first, on a box that is encrypted.
const flashed = await Box.start({ tls: true });
try {
  const visitor = await Visitor.start(flashed, { viewport: { width: 1000, height: 720 } });
  await visitor.page.goto(flashed.url);
  await visitor.page.getByLabel('Claim code').waitFor();
  await visitor.page.screenshot({ path: join(folder, '../images/first-page.png') });
  await visitor.stop();
} finally {
  await flashed.stop();
}

const fresh = await Box.start({ imports: ['dist/demo/models', 'dist/demo/pipelines'] });
try {
  const minutes = spawn('node', [join(root, 'webui/test/minutes.mjs'), fresh.url, fresh.code, folder], { stdio: 'inherit' });
  const [status] = await once(minutes, 'exit');
  check(status === 0, `minutes.mjs ended with ${status}`);
} finally {
  await fresh.stop();
}
process.exit();

// A model: trying it, activating, comparing and rolling back while requests run, and deleting it with what needs it. By
// keyboard alone but for the drops.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { check, drop, equal, everyWidth, inspect, pick, press, root, sample, scenario, type, until } from './harness.mjs';

const face = readFileSync(sample('face.jpg'));
const ask = async (client, model) => (await client.fetch(`/v2/models/${model}/infer`, { method: 'POST', body: face, headers: { 'Content-Type': 'image/jpeg' } }));

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  const device = await box.device(admin);
  visitor.allow(/status of (400|409)/);
  const { page } = visitor;
  await visitor.login();

  // A picture is sent, and the boxes on it are those that the API answers with.
  await visitor.open('/models/faces/try', 'faces');
  await drop(page, page.locator('.drop'), [sample('face.jpg')]);
  await page.getByText('face.jpg', { exact: true }).waitFor();
  const run = () => press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
  await run();
  const drawn = page.locator('[data-boxes]');
  await drawn.waitFor();
  const outputs = (await (await ask(admin, 'faces')).json()).outputs;
  const box4 = outputs.find((o) => o.name === 'box').data;
  equal(await drawn.getAttribute('data-boxes'), String(box4.length / 4), 'boxes on the picture');
  const points = (await drawn.locator('polygon').first().getAttribute('points')).split(' ')[0].split(',').map(Number);
  check(Math.abs(points[0] - box4[0]) < 0.5 && Math.abs(points[1] - box4[1]) < 0.5, `the corner is at ${points}, the API says ${box4.slice(0, 2)}`);
  await page.getByLabel('The call in curl').getByText('--data-binary').waitFor();
  const problems = await everyWidth(page, 'an answer with boxes');

  // Text is drawn on its place in the picture, and stands beside it.
  await visitor.open('/models/text/try', 'text');
  await drop(page, page.locator('.drop'), [sample('text.png')]);
  await page.getByText('text.png', { exact: true }).first().waitFor();
  await run();
  const lines = page.getByRole('region', { name: 'Output quad' });
  await lines.waitFor();
  equal(await lines.getAttribute('data-view'), 'boxes', 'how text is drawn');
  const read = (await page.getByRole('region', { name: 'Output text' }).getByRole('listitem').allInnerTexts()).map((t) => t.trim());
  check(read.length > 0 && (await lines.locator('svg').textContent()).includes(read[0]), `the picture does not have ${read}`);
  problems.push(...(await everyWidth(page, 'text on its places')));

  // Text, from the camera's place in the form: a wrong shape is told at its field.
  await visitor.open('/models/face/try', 'face');
  await press(page.getByRole('button', { name: 'Numbers', exact: true }), 'Enter');
  await press(page.getByRole('button', { name: 'Typed' }), 'Enter');
  await type(page.getByRole('textbox', { name: 'input:0' }), '[[1, 2], [3, 4]]');
  await run();
  await page.getByRole('alert').getByText('wants 4 dimensions, not 2').waitFor();
  problems.push(...(await inspect(page, 'a wrong shape')));
  await press(page.getByRole('button', { name: 'Picture', exact: true }), 'Enter');
  await press(page.getByRole('button', { name: 'Camera' }), 'Enter');
  await press(page.getByRole('button', { name: 'Take the picture' }), 'Enter');
  await page.getByText('camera.jpg', { exact: true }).waitFor();
  await page.getByRole('dialog').waitFor({ state: 'detached' }); // a page behind an open dialog takes no key
  await run();
  await page.getByRole('region', { name: /^Output Identity/ }).first().waitFor();

  // A second version of an ensemble is stored, activated and rolled back while requests run; none of them fails.
  const config = readFileSync(join(root, 'configs/demo/pipelines/faces/config.pbtxt'), 'utf8').replace('# Faces', '# Second edition: faces');
  const pushed = await admin.fetch('/api/v1/models/faces/versions?promote=false&file=config.pbtxt', { method: 'POST', body: config, headers: { 'Content-Type': 'application/octet-stream' } });
  check(pushed.ok, `pushing: ${await pushed.clone().text()}`);
  await visitor.open('/models/faces/versions', 'faces');
  let running = true;
  let answered = 0;
  const failures = [];
  const load = Promise.all([1, 2].map(async () => {
    while (running) {
      const response = await ask(device, 'faces');
      if (response.ok) answered++;
      else failures.push(await response.text());
      await response.body?.cancel().catch(() => {});
    }
  }));
  await press(page.getByRole('button', { name: 'Activate' }), 'Enter');
  await press(page.getByRole('dialog').getByRole('button', { name: 'Activate version 2' }), 'Enter');
  await page.getByText('faces answers with version 2.').waitFor();
  await page.getByLabel('Compare this version').waitFor();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await press(page.getByRole('button', { name: 'Roll back', exact: true }), 'Enter');
  problems.push(...(await everyWidth(page, 'the question before a rollback')));
  await press(page.getByRole('button', { name: 'Roll back to version 1' }), 'Enter');
  await page.getByText('faces answers with version 1 again.').waitFor();
  running = false;
  await load;
  equal(failures, [], 'requests that failed during the rollback');
  check(answered > 3, `only ${answered} requests were answered meanwhile`);
  await page.getByText('back to version 1').first().waitFor();
  await page.getByText(/rolled back by anna/).first().waitFor();

  // Deleting says what goes along, and does nothing before that was agreed to.
  await visitor.open('/models/face', 'face');
  await pick(page, 'More about face', 'Delete model');
  const dialog = page.getByRole('dialog', { name: 'Delete face' });
  await dialog.getByText('faces version 1').waitFor();
  problems.push(...(await everyWidth(page, 'the question before deleting')));
  check(await dialog.getByRole('button', { name: 'Delete', exact: true }).isDisabled(), 'deleting needs an agreement');
  await press(dialog.getByLabel('Delete them too'), 'Space');
  await press(dialog.getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  await until('the models to be gone', async () => !(await admin.call('GET', '/models')).some((m) => m.name === 'faces' || m.name === 'face'));
  equal(problems, [], 'what axe found');
});

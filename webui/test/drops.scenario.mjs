// Uploads as people have them: files and folders dropped on any page, a wrong one among right ones, weights beside their network,
// a version dropped on its model's page, what differs before it answers, the way back; and uploads that can never succeed. By
// keyboard alone but for the drops.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, drop, equal, everyWidth, inspect, pick, press, scenario, until } from './harness.mjs';
import { reaching, times, unloadable } from './onnx.mjs';

export default () => scenario({ set: { 'upload.max_bytes': '8MiB' } }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/status of (400|409|413|422)/);
  const { page } = visitor;
  const base = mkdtempSync(join(tmpdir(), 'edgewise-drops-'));
  const file = (path, body) => { mkdirSync(join(base, path, '..'), { recursive: true }); writeFileSync(join(base, path), body); return join(base, path); };
  const main = page.getByRole('main');
  const job = (name) => page.getByRole('article', { name: `Job of ${name}` });
  const named = async () => (await admin.call('GET', '/jobs')).filter((j) => j.state === 'staged').map((j) => [j.filename, ...j.understood.models.map((m) => m.name)]).sort();
  const problems = [];
  await visitor.login();

  // Several files at once, on the first page: each right one is uploaded, with what belongs to it, and the wrong ones are named.
  await drop(page, main, [file('gauge.onnx', times(2)), file('holiday.jpg', 'a picture'), file('heavy.onnx', reaching('heavy.weights')), file('heavy.weights', Buffer.alloc(4)), file('void.onnx', '')]);
  await page.getByText(/holiday\.jpg is not a file that the box accepts.*void\.onnx is empty/).waitFor();
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  for (const name of ['gauge.onnx', 'heavy.tar']) await job(name).getByText('Ready to activate').waitFor();
  equal(await named(), [['gauge.onnx', 'gauge'], ['heavy.tar', 'heavy']], 'what was uploaded');
  problems.push(...(await everyWidth(page, 'several uploads')));
  await press(job('gauge.onnx').getByRole('button', { name: 'Activate' }), 'Enter');
  await job('gauge.onnx').getByText('Done').waitFor();
  await press(job('heavy.tar').getByRole('button', { name: 'Discard' }), 'Enter');

  // Whole folders: one with exports of other programs, and one in Triton's layout among what else lies there.
  file('exports/level.onnx', times(4));
  file('exports/tank.onnx', times(5));
  file('exports/deep.onnx', reaching('deep.onnx.data'));
  file('exports/deep.onnx.data', Buffer.alloc(4));
  file('exports/train.py', 'import torch');
  file('line/scale/1/model.onnx', times(6));
  file('line/README.md', '# the models of line 3');
  await visitor.open('/steps', 'Steps');
  await drop(page, main, [join(base, 'exports'), join(base, 'line')]);
  await page.getByText('train.py is not a file that the box accepts').waitFor();
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  const dropped = ['level.onnx', 'tank.onnx', 'deep.tar', 'line.tar'];
  for (const name of dropped) await job(name).getByText('Ready to activate').waitFor();
  for (const name of dropped) await press(job(name).getByRole('button', { name: 'Discard' }), 'Enter');

  // Where something may have been typed the page stays, and says where the upload is.
  await visitor.open('/activity/alerts', 'Activity');
  await page.getByRole('main').locator('form').first().waitFor();
  await drop(page, main, [file('level.onnx', times(4))]);
  await page.getByText('The upload has begun.').waitFor();
  await press(page.getByRole('button', { name: 'Show', exact: true }), 'Enter');
  await job('level.onnx').getByText('Ready to activate').waitFor();
  await job('level.onnx').getByLabel('Name').waitFor();
  equal(await job('level.onnx').getByText(/difference/).count(), 0, 'differences of a model that is new');
  await job('level.onnx').getByLabel('Name').fill('gauge');
  await job('level.onnx').getByText('1 difference from version 1').waitFor();
  await press(job('level.onnx').getByRole('button', { name: 'Discard' }), 'Enter');

  // On a model's page it becomes that model's next version, whatever the file is called.
  await visitor.open('/models/gauge/versions', 'gauge');
  await drop(page, main, [file('export-final-2.onnx', times(3, true, 'z'))]);
  await job('export-final-2.onnx').getByText('Ready to activate').waitFor();
  equal(await job('export-final-2.onnx').getByLabel('Name').inputValue(), 'gauge', 'the name that is proposed');
  await job('export-final-2.onnx').getByText('4 differences from version 1, some of which clients may notice').waitFor();
  for (const what of ['input x', 'input z', 'output same', 'file model.onnx']) await job('export-final-2.onnx').getByRole('listitem').filter({ hasText: what }).first().waitFor();
  problems.push(...(await everyWidth(page, 'an upload on the page of its model')));
  await press(job('export-final-2.onnx').getByRole('button', { name: 'Activate' }), 'Enter');
  await until('version 2 to be live', async () => (await admin.call('GET', '/models/gauge')).labels[0]?.version === 2);

  // The way back asks, and can be undone; so do an activation and a deletion.
  const live = (version) => until(`version ${version} to be live`, async () => (await admin.call('GET', '/models/gauge')).labels[0]?.version === version);
  const dialog = page.getByRole('dialog');
  const undo = async () => { await dialog.waitFor({ state: 'detached' }); await press(page.getByRole('button', { name: 'Undo' }).last(), 'Enter'); };
  await press(job('export-final-2.onnx').getByRole('button', { name: 'Roll back' }), 'Enter');
  await dialog.getByText('4 differences from version 2').waitFor();
  await press(dialog.getByRole('button', { name: 'Roll back to version 1' }), 'Enter');
  await page.getByText('gauge answers with version 1 again.').waitFor();
  await undo();
  await live(2);
  await page.reload();
  await press(page.getByRole('row', { name: /^1 / }).getByRole('button', { name: 'Activate' }), 'Enter');
  await dialog.getByText('4 differences from version 2').waitFor();
  problems.push(...(await inspect(page, 'the question before an activation')));
  await press(dialog.getByRole('button', { name: 'Activate version 1' }), 'Enter');
  await page.getByText('gauge answers with version 1.').waitFor();
  await undo();
  await live(2);
  await pick(page, 'More about gauge', 'Delete model');
  await dialog.getByText('It can be undone for six seconds.').waitFor();
  await press(dialog.getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  equal(await page.getByRole('row', { name: /gauge/ }).count(), 0, 'rows of the model that was deleted');
  await undo();
  await page.getByRole('row', { name: /gauge/ }).waitFor();
  equal((await admin.call('GET', '/models')).length, 1, 'models after the deletion was undone');

  // What can never succeed is refused with sizes that people read, and is not offered to go on.
  await visitor.open('/models', 'Models');
  await drop(page, main, [file('huge.onnx', Buffer.alloc(9 << 20))]);
  const refused = page.getByRole('article', { name: 'Upload of huge.onnx' });
  await refused.getByText('Stopped').waitFor();
  check(/9 MiB.*8 MiB/.test(await refused.getByRole('alert').innerText()), `the page says ${await refused.getByRole('alert').innerText()}`);
  equal(await refused.getByRole('button', { name: 'Resume' }).count(), 0, 'buttons that would send it again');
  problems.push(...(await everyWidth(page, 'an upload that is refused')));
  await press(refused.getByRole('button', { name: 'Hide' }), 'Enter');
  await refused.waitFor({ state: 'detached' });

  await drop(page, main, [file('misfit.onnx', unloadable())]);
  await press(job('misfit.onnx').getByRole('button', { name: 'Activate' }), 'Enter');
  await job('misfit.onnx').getByText('Load failed', { exact: true }).waitFor();
  equal(await job('misfit.onnx').getByRole('button', { name: /Try again/ }).count(), 0, 'buttons that would try the same once more');

  equal(problems, [], 'what axe found');
  rmSync(base, { recursive: true, force: true });
});

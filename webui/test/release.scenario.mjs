// Versions: a label that moves, with a device that goes along; a third version that fails its smoke test while the second goes
// on answering; what differs between two; and times in the reader's zone.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, equal, inspect, patience, scenario, until } from './harness.mjs';
import { broken, times } from './onnx.mjs';

const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }], outputs: [{ name: 'y' }] });
const warmup = `max_batch_size: 0
model_warmup [{ name: "smoke" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 4] zero_data: true } } }]
`;

export default () => scenario({ context: { timezoneId: 'Asia/Tokyo', locale: 'en-GB' } }, async (box, visitor) => {
  const admin = await box.claim();
  const device = await box.device(admin, 'gauge reader', { models: ['gauge'] });
  visitor.allow(/status of (400|409|422|503)/);
  const { page } = visitor;
  const push = async (model, promote) => {
    const response = await admin.fetch(`/api/v1/models/gauge/versions?promote=${promote}&file=model.onnx`, { method: 'POST', body: model, headers: { 'Content-Type': 'application/octet-stream' } });
    check(response.ok, `pushing: ${await response.clone().text()}`);
  };
  await push(times(2), true);
  await push(times(3, true), true);
  const answer = async (path) => {
    const response = await device.fetch(`/v2/models/gauge${path}/infer`, { method: 'POST', body, headers: { 'Content-Type': 'application/json' } }).catch((e) => e);
    if (response instanceof Error) return response.message;
    const said = await response.json();
    return response.ok ? said.outputs[0].data[3] : said.error;
  };
  equal(await answer(''), 12, 'what version 2 answers');

  // A label is made and moved in the page; the device that names it is never without an answer.
  const problems = [];
  await visitor.login();
  await visitor.open('/models/gauge/versions', 'gauge');
  const label = async (version) => {
    await page.getByRole('button', { name: `More about version ${version}` }).click();
    await page.getByRole('menuitem', { name: 'Add a label' }).click();
    await page.getByLabel('Label', { exact: true }).fill('line-3');
    if (version === 1) problems.push(...(await inspect(page, 'a new label')));
    await page.getByRole('button', { name: 'Set the label' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' }).catch(() => {});
    await page.getByRole('row', { name: new RegExp(`^${version} `) }).getByText('line-3').waitFor();
  };
  await label(1);
  equal(await answer('/versions/line-3'), 8, 'what the label answers at first');
  const heard = new Set();
  let asking = true;
  const loop = (async () => { while (asking) { heard.add(await answer('/versions/line-3')); await new Promise((r) => setTimeout(r, 10)); } })();
  await label(2);
  await until('the device to hear the new version', () => heard.has(12));
  asking = false;
  await loop;
  equal([...heard].sort(), [12, 8], 'all that the device heard');
  await page.getByRole('button', { name: 'Remove the label line-3' }).click();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('row', { name: /^2 / }).getByText('line-3').waitFor();

  // What differs is told by name, and what a client may notice is marked.
  await page.getByRole('listitem').filter({ hasText: /^output same/ }).getByText('added').waitFor();
  await page.getByLabel('Compare this version').selectOption('2');
  await page.getByLabel('with this version').selectOption('1');
  await page.getByRole('listitem').filter({ hasText: /^output same/ }).getByText('clients may notice').waitFor();

  // A version that nothing needs goes with a way back.
  await page.getByRole('button', { name: 'More about version 1' }).click();
  problems.push(...(await inspect(page, 'a menu')));
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByText('It can be undone for six seconds.').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('Deleted version 1 of gauge.').waitFor();
  equal(await page.getByRole('row', { name: /^1 / }).count(), 0, 'rows of the version that was deleted');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('row', { name: /^1 / }).waitFor();

  // Times are the reader's.
  const stored = (await admin.call('GET', '/models/gauge')).versions[1].created;
  const want = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'Asia/Tokyo' }).format(new Date(stored));
  equal(await page.getByRole('row', { name: /^2 / }).locator('time').getAttribute('title'), want, 'when version 2 was stored');

  // A third version loads and fails its smoke test: the second goes on answering, and the page says why.
  const base = mkdtempSync(join(tmpdir(), 'edgewise-release-'));
  mkdirSync(join(base, 'gauge/3'), { recursive: true });
  writeFileSync(join(base, 'gauge/3/model.onnx'), broken());
  writeFileSync(join(base, 'gauge/config.pbtxt'), warmup);
  await visitor.open('/models', 'Models');
  await page.locator('#choose-folder').setInputFiles(join(base, 'gauge'));
  const job = page.getByRole('article', { name: 'Job of gauge.tar' });
  await job.getByText('Ready to activate').waitFor();
  asking = true;
  const answers = [];
  const meanwhile = (async () => { while (asking) { answers.push(await answer('')); await new Promise((r) => setTimeout(r, 20)); } })();
  await job.getByRole('button', { name: 'Activate' }).click();
  await job.getByText('Warm up failed').waitFor({ timeout: patience });
  check(/smoke|warm/i.test(await job.getByRole('alert').first().innerText()), `the page says ${await job.getByRole('alert').first().innerText()}`);
  asking = false;
  await meanwhile;
  check(answers.length > 3 && answers.every((a) => a === 12), `while it failed the device heard ${[...new Set(answers)]}`);
  problems.push(...(await inspect(page, 'a smoke test that failed')));
  equal(problems, [], 'what axe found');
  await job.getByRole('button', { name: 'Discard' }).click();
  await visitor.open('/models/gauge', 'gauge');
  await page.getByText('Serving').first().waitFor();
  equal((await admin.call('GET', '/models/gauge')).labels.find((l) => l.name === 'live').version, 2, 'the live version');
  rmSync(base, { recursive: true, force: true });
});

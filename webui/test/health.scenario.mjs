// A live model that fails: the page says so, with the last error, and that it works again when another version does. By
// keyboard alone.
import { broken, times } from './onnx.mjs';
import { check, equal, everyWidth, inspect, press, scenario, type, until } from './harness.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const push = (file) => admin.fetch('/api/v1/models/gauge/versions?promote=true&file=model.onnx', { method: 'POST', body: file, headers: { 'Content-Type': 'application/octet-stream' } });
  const ask = async () => (await admin.fetch('/v2/models/gauge/infer', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] }) })).status;
  const pushed = await push(broken());
  check(pushed.ok, `pushing: ${await pushed.clone().text()}`);
  check(/a run with ones failed/.test((await pushed.json()).health.unverified), 'the answer to the push does not say that the version is not verified');
  visitor.allow(/status of 500/);
  const { page } = visitor;
  await visitor.login();
  await visitor.open('/models', 'Models');
  await page.getByRole('row', { name: /gauge/ }).getByText('Serving').waitFor();
  await page.getByRole('row', { name: /gauge/ }).getByText('not verified').waitFor();
  await visitor.open('/models/gauge', 'gauge');
  await page.getByText('Version 1 is not verified.').waitFor();
  await visitor.open('/models/gauge/versions', 'gauge');
  await page.getByRole('row', { name: /^1 / }).getByText('not verified').waitFor();
  await visitor.open('/models', 'Models');

  for (let i = 0; i < 4; i++) equal(await ask(), 500, 'an answer of the broken version');
  await page.getByRole('row', { name: /gauge/ }).getByText('Failing').waitFor();
  const problems = await inspect(page, 'a failing model in the list');
  await visitor.open('/models/gauge', 'gauge');
  await page.getByText('Version 1 is failing.').waitFor();
  await page.getByText(/4 of the last 4 requests have failed\. The last error \(internal\): /).waitFor();
  problems.push(...(await everyWidth(page, 'a failing model')));
  await visitor.open('/models/gauge/versions', 'gauge');
  await page.getByRole('row', { name: /^1 / }).getByText('Failing').waitFor();

  check((await push(times(3))).ok, 'a version that works is refused');
  equal(await ask(), 200, 'an answer of the version that works');
  await visitor.open('/models', 'Models');
  await page.getByRole('row', { name: /gauge/ }).getByText('Serving').waitFor();
  check((await push(times(3, false, 'other'))).ok, 'a version with another input is refused');
  await visitor.open('/models/gauge/versions', 'gauge');
  await press(page.locator('summary').filter({ hasText: '2 signature changes' }).first(), 'Enter');
  await page.getByText('input x').first().waitFor();
  await press(page.getByRole('row', { name: /^2 / }).getByRole('button', { name: 'Activate' }), 'Enter');
  const dialog = page.getByRole('dialog', { name: 'Activate version 2' });
  await dialog.getByText('input other').waitFor();
  problems.push(...(await everyWidth(page, 'a change of the signature')));
  await press(dialog.getByRole('button', { name: 'Activate version 2' }), 'Enter');
  await page.getByText('gauge answers with version 2.').waitFor();
  equal(await ask(), 200, 'an answer of the version that was activated');

  // One version is kept from now on, and the one that a roll-back brings back.
  await visitor.open('/settings/general', 'Settings');
  await type(page.getByLabel('Versions kept of each model'), '1');
  await press(page.getByRole('button', { name: 'Save', exact: true }), 'Enter');
  await page.getByText('Saved.').waitFor();
  check((await push(times(4))).ok, 'a fourth version is refused');
  await until('the older versions to be gone', async () => JSON.stringify((await admin.call('GET', '/models/gauge')).versions.map((v) => v.version)) === '[2,4]');
  equal(problems, [], 'what axe found');
});

// Goldens: a tried request kept as one; an uploaded version that answers it otherwise does not go live, and its report says by how
// much; a rule by keyboard that lets it pass; a golden deleted and taken back.
import { check, equal, press, scenario } from './harness.mjs';
import { detector, times } from './onnx.mjs';
import { round } from './round.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  const pushed = await admin.fetch('/api/v1/models/gauge/versions?promote=true&file=model.onnx', { method: 'POST', body: times(2), headers: { 'Content-Type': 'application/octet-stream' } });
  check(pushed.ok, `pushing: ${await pushed.clone().text()}`);
  await visitor.login();
  await visitor.open('/models/gauge/try', 'gauge');
  await page.getByRole('textbox', { name: 'x' }).fill('[[1, 2, 3, 4]]');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('button', { name: 'Keep as golden' }).click();
  await page.getByRole('button', { name: 'Goldens', exact: true }).click();
  const golden = page.getByRole('row', { name: /Version 1.*x \[1, 4\] → y \[1, 4\]/ });
  await golden.waitFor();

  await page.getByRole('button', { name: 'More about gauge' }).click();
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.getByRole('menuitem', { name: 'Add a version' }).click()]);
  await chooser.setFiles({ name: 'gauge.onnx', mimeType: 'application/octet-stream', buffer: times(3) });
  const job = page.getByRole('article', { name: /^Job of gauge/ });
  await job.getByRole('button', { name: 'Activate' }).click();
  await job.getByRole('link', { name: 'Report of the goldens' }).click();
  await page.getByRole('heading', { name: 'Version 2 fails 1 of 1 golden' }).waitFor();
  await page.getByRole('region', { name: 'The largest differences of y' }).getByRole('row', { name: '[0, 3] 8 12 4' }).waitFor();
  equal((await admin.call('GET', '/models/gauge')).labels.find((l) => l.name === 'live').version, 1, 'the live version');

  equal(await round(visitor, [['/models/gauge/goldens?version=2', 'gauge']]), [], 'what axe and the phone found');
  const rule = page.getByRole('group', { name: 'Rule of y' });
  await press(page.getByRole('button', { name: 'Add a rule of y' }), 'Enter');
  await rule.getByLabel('May differ by', { exact: true }).focus();
  await page.keyboard.type('10');
  await page.keyboard.press('Enter');
  await page.getByText('Saved.').waitFor();
  await press(page.getByRole('button', { name: 'Run the goldens on version 2' }), 'Enter');
  await page.getByRole('heading', { name: 'Version 2 passes 1 golden' }).waitFor();

  await page.getByRole('button', { name: /^Delete the golden/ }).click();
  await page.getByRole('heading', { name: 'No goldens yet' }).waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await golden.waitFor();
  await pictures(visitor, admin);
});

/** A version that finds other boxes: its report shows both answers on the picture of the request, and the list of versions says how it went. */
async function pictures(visitor, admin) {
  const { page } = visitor;
  for (const [factor, promote] of [[1, true], [0.5, false]]) {
    const pushed = await admin.fetch(`/api/v1/models/eye/versions?promote=${promote}&file=model.onnx`, { method: 'POST', body: detector(factor), headers: { 'Content-Type': 'application/octet-stream' } });
    check(pushed.ok, `pushing: ${await pushed.clone().text()}`);
  }
  const data = Array.from({ length: 3 * 32 * 32 }, (_, i) => (i % 32) / 32);
  await admin.call('POST', '/models/eye/goldens?name=street', { inputs: [{ name: 'image', datatype: 'FP32', shape: [1, 3, 32, 32], data }] });
  equal((await admin.call('POST', '/models/eye/versions/2/goldens')).failed, 1, 'the goldens that version 2 fails');
  await visitor.open('/models/eye/versions', 'eye');
  await press(page.getByRole('link', { name: 'Goldens of version 2: fails 1' }), 'Enter');
  await press(page.getByRole('button', { name: 'Show both answers of street' }), 'Enter');
  for (const name of ['Expected', 'Answered']) await page.getByRole('region', { name, exact: true }).locator('svg[data-boxes="2"]').waitFor();
  equal(await round(visitor, [['/models/eye/goldens?version=2', 'eye']]), [], 'what axe and the phone found');
}

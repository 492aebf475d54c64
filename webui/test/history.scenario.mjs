// What outlives a restart: the history of requests by model and key, alerts and whom they tell; and a box that is gone.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { check, equal, inspect, sample, scenario, until } from './harness.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/ERR_|Failed to load resource/);
  const { page } = visitor;
  await visitor.login();
  for (let i = 0; i < 12; i++) {
    const asked = await admin.fetch('/v2/models/faces/infer', { method: 'POST', body: readFileSync(sample('face.jpg')), headers: { 'Content-Type': 'image/jpeg' } });
    check(asked.ok, `asking: ${asked.status}`);
  }

  await visitor.open('/activity/history?range=hour', 'Activity');
  await page.getByText('Live', { exact: true }).waitFor();
  const stored = async () => (await (await admin.fetch('/api/v1/statistics/history?by=model')).json()).series.map((s) => s.model);
  await until('the minute with the requests', async () => (await stored()).includes('faces'));
  await box.kill();
  await page.getByText('The box does not answer.').waitFor({ state: 'attached' });
  await box.run();
  await page.getByText('Live', { exact: true }).waitFor();

  // The history is there after the kill, in each split and range, and as a table.
  await visitor.open('/activity/history?range=hour&by=model', 'Activity');
  await page.getByRole('figure', { name: 'Throughput (req/s)' }).getByText('faces', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Week' }).click();
  await page.getByRole('figure', { name: 'p99 latency' }).getByText('faces', { exact: true }).waitFor();
  await page.getByLabel('Split by').selectOption('caller');
  await page.getByRole('figure', { name: 'Error rate' }).waitFor();
  await page.getByLabel('Split by').selectOption('total');
  await page.getByRole('button', { name: 'Day', exact: true }).click();
  await page.getByLabel('Yesterday').check();
  await page.getByRole('figure', { name: 'Latency', exact: true }).getByText('p95, yesterday').waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'CSV' }).click()]);
  const table = readFileSync(await download.path(), 'utf8').split('\n');
  check(table[0].startsWith('time,model,version,caller,') && table.length > 2, `the table: ${table.slice(0, 2)}`);
  equal(await inspect(page, 'history'), [], 'axe');
  const [bundle] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Support bundle' }).click()]);
  equal(readFileSync(await bundle.path()).subarray(0, 2).toString(), 'PK', 'the support bundle');

  // A webhook is set, tested and never shown.
  const received = [];
  const hook = createServer((req, res) => { let text = ''; req.on('data', (d) => (text += d)); req.on('end', () => { received.push(JSON.parse(text)); res.end(); }); });
  await new Promise((r) => hook.listen(0, '127.0.0.1', r));
  await page.getByRole('link', { name: 'Alerts' }).click();
  await page.getByRole('button', { name: 'Add a rule' }).click();
  const rule = page.getByRole('group', { name: 'Rule 1' });
  await rule.getByLabel('Condition').selectOption('disk');
  await rule.getByLabel('Bound').fill('99');
  await page.getByLabel('Webhook URL').fill(`http://127.0.0.1:${hook.address().port}/planted-secret`);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText('The test reached the webhook.').waitFor();
  equal([received.length, received[0].test], [1, true], 'what the webhook received');
  check(!(await page.content()).includes('planted-secret'), 'the page shows the webhook');
  equal(await inspect(page, 'alerts'), [], 'axe');
  await new Promise((r) => hook.close(r));
});

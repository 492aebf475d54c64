// What outlives a restart: the history of requests by model and key, alerts and whom they tell; and a box that is gone.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { check, equal, everyWidth, press, sample, scenario, type, until } from './harness.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'], set: { 'alerts.rules': 'disk:0' } }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/ERR_|Failed to load resource/);
  const { page } = visitor;
  await visitor.login();
  for (let i = 0; i < 12; i++) {
    const asked = await admin.fetch('/v2/models/faces/infer', { method: 'POST', body: readFileSync(sample('face.jpg')), headers: { 'Content-Type': 'image/jpeg' } });
    check(asked.ok, `asking: ${asked.status}`);
  }

  // The first minute ends with an alert. Nothing here is done with a mouse: rules are written, a webhook is set, tested and never shown,
  // and what cannot be sent says why.
  const problems = [];
  const received = [];
  const hook = createServer((req, res) => { let text = ''; req.on('data', (d) => (text += d)); req.on('end', () => { received.push(JSON.parse(text)); res.end(); }); });
  await new Promise((r) => hook.listen(0, '127.0.0.1', r));
  await until('the alert', async () => (await admin.call('GET', '/alerts')).active.length > 0);
  await visitor.open('/activity/history?range=hour', 'Activity');
  await press(page.getByRole('link', { name: 'Alerts' }), 'Enter');
  await page.getByText(/Alert: \d+ % of the disk are in use/).waitFor();
  await press(page.getByRole('button', { name: 'Add a rule' }), 'Enter', 'Enter');
  const rule = (n) => page.getByRole('group', { name: `Rule ${n}` });
  await press(rule(2).getByLabel('Condition'), 'ArrowDown');
  await type(rule(2).getByLabel('Bound'), '120');
  await press(rule(2).getByRole('combobox').nth(1), 'ArrowDown');
  await press(rule(3).getByLabel('Condition'), 'End');
  await press(page.getByRole('button', { name: 'Remove: Rule 1' }), 'Enter');
  await type(page.getByLabel('Webhook URL'), `http://127.0.0.1:${hook.address().port}/planted-secret`);
  await type(page.getByLabel('Mail server (host:port)'), '127.0.0.1:1');
  await type(page.getByLabel('Sender'), 'box@example.com');
  await type(page.getByLabel('Recipients, separated by commas'), 'anna@example.com, bert@example.com');
  check(await page.getByRole('button', { name: 'Send a test' }).isDisabled(), 'a test can be sent of what is not saved');
  problems.push(...(await everyWidth(page, 'alerts that are being changed')));
  await press(page.getByRole('button', { name: 'Save', exact: true }), 'Enter');
  await page.getByText('Saved.').waitFor();
  await press(page.getByRole('button', { name: 'Send a test' }), 'Enter');
  await page.getByText('The test reached the webhook.').waitFor();
  await page.getByText(/The test did not reach the email: /).waitFor();
  equal([received.length, received[0].test], [1, true], 'what the webhook received');
  check(!(await page.content()).includes('planted-secret'), 'the page shows the webhook');
  equal((await admin.call('GET', '/alerts')).rules.map((r) => [r.kind, r.above, r.model !== '']), [['p99', 120, true], ['model_down', 0, false]], 'the rules');
  await until('the page after the test', async () => await page.getByRole('button', { name: 'Send a test' }).isEnabled());
  problems.push(...(await everyWidth(page, 'alerts')));

  await visitor.open('/activity/history?range=hour', 'Activity');
  await page.getByText('Live', { exact: true }).waitFor();
  const stored = async () => (await (await admin.fetch('/api/v1/statistics/history?by=model')).json()).series.map((s) => s.model);
  await until('the minute with the requests', async () => (await stored()).includes('faces'));
  await box.kill();
  await page.getByText('The box does not answer.').waitFor({ state: 'attached' });
  await box.run();
  await page.getByText('Live', { exact: true }).waitFor();

  // The history is there after the kill, in each split and range, and as a table; and so are the rules.
  const chart = (name) => page.getByRole('figure', { name, exact: true });
  await visitor.open('/activity/history?range=hour&by=model', 'Activity');
  await chart('Throughput (req/s)').getByText('faces', { exact: true }).waitFor();
  problems.push(...(await everyWidth(page, 'the history by model')));
  await press(page.getByRole('button', { name: 'Week' }), 'Enter');
  await chart('p99 latency').getByText('faces', { exact: true }).waitFor();
  await press(page.getByLabel('Split by'), 'ArrowDown');
  await chart('p95 latency').getByText('faces 1', { exact: true }).waitFor();
  await press(page.getByLabel('Split by'), 'End');
  await chart('Throughput (req/s)').getByText('person:anna').waitFor();
  await press(page.getByLabel('Split by'), 'Home');
  await press(page.getByRole('button', { name: 'Day', exact: true }), 'Enter');
  await press(page.getByLabel('Yesterday'), 'Space');
  await chart('Latency').getByText('p95, yesterday').waitFor();
  await press(chart('Latency').getByRole('button', { name: /table/i }), 'Enter');
  await chart('Latency').getByRole('columnheader', { name: 'p95', exact: true }).waitFor();
  problems.push(...(await everyWidth(page, 'the history beside yesterday')));
  const [download] = await Promise.all([page.waitForEvent('download'), press(page.getByRole('link', { name: 'CSV' }), 'Enter')]);
  const table = readFileSync(await download.path(), 'utf8').split('\n');
  check(table[0].startsWith('time,model,version,caller,') && table.length > 2, `the table: ${table.slice(0, 2)}`);
  const [bundle] = await Promise.all([page.waitForEvent('download'), press(page.getByRole('link', { name: 'Support bundle' }), 'Enter')]);
  equal(readFileSync(await bundle.path()).subarray(0, 2).toString(), 'PK', 'the support bundle');
  await visitor.open('/activity/alerts', 'Activity');
  await rule(2).waitFor();
  equal(await rule(1).getByLabel('Bound').inputValue(), '120', 'the bound of the rule after the kill');
  equal(problems, [], 'what axe found');
  await new Promise((r) => hook.close(r));
});

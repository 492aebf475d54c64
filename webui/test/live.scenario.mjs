// What the page knows without asking: one stream for eight tabs, and the truth when nothing arrives any more.
import { check, equal, sample, scenario, until } from './harness.mjs';
import { readFileSync } from 'node:fs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/ERR_|Failed to load resource/);
  const { page } = visitor;
  await visitor.login();
  const tabs = [page];
  for (let i = 0; i < 7; i++) {
    const tab = await visitor.context.newPage();
    await tab.goto(box.url + (i % 2 ? '/models' : '/activity/logs'));
    tabs.push(tab);
  }
  for (const tab of tabs) await tab.getByText('Live', { exact: true }).waitFor();

  // A request shows up by itself, with where its time went.
  await visitor.open('/activity/requests', 'Activity');
  await page.getByText('Live', { exact: true }).waitFor();
  await page.waitForTimeout(500);
  const asked = await admin.fetch('/v2/models/faces/infer', { method: 'POST', body: readFileSync(sample('face.jpg')), headers: { 'Content-Type': 'image/jpeg' } });
  check(asked.ok, `asking: ${asked.status}`);
  const one = page.getByRole('region', { name: 'One request' });
  await one.getByText('Queue', { exact: true }).first().waitFor();
  await one.getByRole('heading', { name: /^faces/ }).waitFor();
  for (const name of ['face_input', 'anchors']) await one.getByText(name, { exact: true }).first().waitFor();

  // The log is followed; each line stands there once, also after the box was away.
  const logs = tabs[1];
  await logs.bringToFront();
  await logs.getByRole('log').getByText('version ready').first().waitFor();
  await box.kill();
  await logs.getByText(/Last update \d+ s ago/).waitFor();
  await box.run();
  await logs.getByText('Live', { exact: true }).waitFor();
  await until('the log of the new start', async () => (await logs.getByRole('log').getByRole('listitem').count()) > 3);
  const seen = await logs.getByRole('log').getByRole('listitem').allInnerTexts();
  equal(seen.length, new Set(seen).size, 'lines that stand there twice');
});

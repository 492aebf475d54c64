// What the page knows without asking: one stream for eight tabs, and the truth when nothing arrives any more.
import { Cable, Visitor, check, equal, sample, scenario, until } from './harness.mjs';
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

  // A page whose clock stands still sees by the closed connection alone that the box was killed, and one that only hears nothing any more
  // within 2 s of its own clock.
  const cable = await Cable.to(box);
  const silent = await timeless(visitor, cable.url);
  const told = await timeless(visitor, box.url);
  await answering(silent.page, cable);
  cable.pull();
  const heard = await until('the page to miss the box', async () => {
    await silent.page.clock.runFor(50);
    return silent.page.evaluate(() => /has not answered for/.test(document.body.innerText) && Date.now() - globalThis.lastEvent);
  });
  check(heard > 1000 && heard <= 2000, `the page misses the box ${heard} ms after its last event`);
  cable.plug();
  await silent.page.getByText('Live', { exact: true }).waitFor();
  await silent.stop();
  cable.close();

  // The log is followed; each line stands there once, also after the box was away.
  const logs = tabs[1];
  await logs.bringToFront();
  await logs.getByRole('log').getByText('version ready').first().waitFor();
  await box.kill();
  await told.page.getByText('Last update 0 s ago').waitFor();
  await told.stop();
  await logs.getByText(/Last update \d+ s ago/).waitFor();
  await box.run();
  await logs.getByText('Live', { exact: true }).waitFor();
  await until('the log of the new start', async () => (await logs.getByRole('log').getByRole('listitem').count()) > 3);
  const seen = await logs.getByRole('log').getByRole('listitem').allInnerTexts();
  equal(seen.length, new Set(seen).size, 'lines that stand there twice');
});

/** A browser of its own at `url`, logged in and live, whose time passes only when it is told to. It notes when it hears of the box. */
async function timeless(visitor, url) {
  const other = await Visitor.start(visitor.box, { browser: visitor.browser, url, context: { storageState: await visitor.context.storageState() } });
  other.allow(/ERR_|Failed to load resource/);
  const { page } = other;
  const now = Date.now();
  await page.clock.install({ time: now });
  await page.clock.pauseAt(now + 1000);
  await page.addInitScript(() => {
    globalThis.EventSource = class extends EventSource {
      addEventListener(name, heard) {
        super.addEventListener(name, (e) => { if (name !== 'error') globalThis.lastEvent = Date.now(); heard(e); });
      }
    };
  });
  await page.goto(url);
  await until('the page to be live', async () => {
    await page.clock.runFor(50);
    return page.getByText('Live', { exact: true }).isVisible();
  });
  return other;
}

/** A box that is silent for longer than between two events is asked, and its answer is enough. */
async function answering(page, cable) {
  let asked = null;
  page.on('request', (r) => { if (r.url().endsWith('/v2/health/live')) asked ??= r; });
  cable.pull();
  await until('the page to ask', async () => {
    await page.clock.runFor(50);
    return asked;
  });
  cable.plug();
  await asked.response();
  await page.clock.runFor(600);
  check(await page.getByText('Live', { exact: true }).isVisible(), 'a box that answers is missed');
}

// Every page, in both colours and on the smallest phone: nothing that the policy refuses, nothing that axe finds, no sideways
// scrolling, no request elsewhere; and what the first page weighs.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { check, equal, sample, scenario, until, Visitor } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const demo = { imports: ['dist/demo/models', 'dist/demo/pipelines'] };
const KB = 1024;

async function judge(page, where) {
  // The policy keeps foreign scripts out of the page; axe comes in through the debugger, which stands outside of it.
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: axe });
  const found = await session.send('Runtime.evaluate', { expression: `axe.run(document, { resultTypes: ['violations'] }).then((r) => JSON.stringify(r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => v.id + ': ' + v.nodes.map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).slice(0, 3).join(' | '))))`, awaitPromise: true, returnByValue: true });
  await session.detach();
  return JSON.parse(found.result.value).map((v) => `${where}: ${v}`);
}

export default () => scenario(demo, async (box, visitor) => {
  const admin = await box.claim();
  const draft = await admin.call('POST', '/drafts', { name: 'faces', config: (await admin.call('GET', '/ensembles')).find((e) => e.name === 'faces').config });
  const pages = [
    ['/', 'Home'], ['/models', 'Models'], ['/models/faces', 'faces'], ['/models/faces/try', 'faces'], ['/models/faces/versions', 'faces'], ['/models/face/graph', 'face'],
    ['/ensembles', 'Ensembles'], [`/ensembles/${draft.id}`, 'faces'], ['/steps', 'Steps'], ['/steps/edit?from=limit', 'limit'],
    ['/activity/requests', 'Activity'], ['/activity/logs', 'Activity'], ['/activity/audit', 'Activity'],
    ['/settings/general', 'Settings'], ['/settings/me', 'Settings'], ['/settings/users', 'Settings'], ['/settings/keys', 'Settings'], ['/settings/security', 'Settings'], ['/settings/backup', 'Settings'], ['/settings/configuration', 'Settings'], ['/settings/about', 'Settings'],
    ['/api-reference', 'API'], ['/nothing/here', 'There is no such page'],
  ];
  await admin.fetch('/v2/models/faces/infer', { method: 'POST', body: readFileSync(sample('face.jpg')), headers: { 'Content-Type': 'image/jpeg' } });

  // The login: what it weighs, and that it needs no page behind it.
  const cold = await weigh(visitor.page, () => visitor.page.goto(box.url).then(() => visitor.page.getByRole('button', { name: 'Log in' }).waitFor()));
  check(cold.bytes <= 35 * KB, `the login takes ${cold.bytes} bytes, more than 35 KB`);
  const problems = await judge(visitor.page, 'login');
  await visitor.login();
  const home = await weigh(visitor.page, () => visitor.page.reload().then(() => visitor.page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()), true);
  check(home.bytes <= 70 * KB, `the first page takes ${home.bytes} bytes, more than 70 KB`);
  check(home.requests <= 6, `the first page takes ${home.requests} requests, more than 6: ${home.urls.join(' ')}`);

  const phone = { width: 320, height: 640 };
  for (const [path, heading] of pages) {
    await visitor.page.emulateMedia({ colorScheme: 'light' });
    await visitor.open(path, heading);
    await settled(visitor.page);
    problems.push(...(await judge(visitor.page, path)));
    await visitor.page.emulateMedia({ colorScheme: 'dark' });
    problems.push(...(await judge(visitor.page, path + ' dark')));
    await visitor.page.setViewportSize(phone);
    await visitor.page.waitForTimeout(60);
    const wide = await visitor.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) problems.push(`${path} scrolls sideways by ${wide} px at 320 px`);
    await visitor.page.setViewportSize({ width: 1280, height: 860 });
  }
  equal(problems, [], 'what axe and the phone found');

  // Without scripts the page says so.
  const plain = await Visitor.start(box, { browser: visitor.browser, context: { javaScriptEnabled: false } });
  await plain.page.goto(box.url);
  await plain.page.getByText('This page needs JavaScript').waitFor();
  await plain.stop();
});

async function settled(page) {
  await until('skeletons to go', async () => (await page.locator('main .skeleton').count()) === 0, 15_000).catch(() => { throw new Error(`${page.url()} keeps its skeletons`); });
}

/** Bytes on the wire and requests of the page's own files; its questions to the API are answers, not page. */
async function weigh(page, visit, fresh = false) {
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  if (fresh) await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  const urls = new Map();
  let bytes = 0;
  session.on('Network.responseReceived', (e) => urls.set(e.requestId, e.response.url));
  session.on('Network.loadingFinished', (e) => { const url = urls.get(e.requestId); if (url && !url.includes('/api/')) bytes += e.encodedDataLength; });
  await visit();
  await page.waitForTimeout(500);
  const own = [...urls.values()].filter((u) => !u.includes('/api/') && u.startsWith('http'));
  await session.send('Network.setCacheDisabled', { cacheDisabled: false });
  await session.detach();
  return { bytes, requests: own.length, urls: own };
}

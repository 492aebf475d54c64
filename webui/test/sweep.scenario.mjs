// Every page, in both colours, on the smallest phone and with text of twice the size: nothing that the policy refuses, nothing that axe finds, no sideways
// scrolling, no request elsewhere; and what the first page weighs. PICTURES=FOLDER keeps a picture of each.
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { check, equal, judge, root, sample, scenario, until, Visitor } from './harness.mjs';

const demo = { imports: ['dist/demo/models', 'dist/demo/pipelines'] };
const KB = 1024;

export default () => scenario({ ...demo, context: { reducedMotion: 'reduce' } }, async (box, visitor) => {
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
  const home = await weigh(visitor.page, () => visitor.page.reload().then(() => visitor.page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()));
  check(home.bytes <= 70 * KB, `the first page takes ${home.bytes} bytes, more than 70 KB`);
  check(home.requests <= 6, `the first page takes ${home.requests} requests, more than 6: ${home.urls.join(' ')}`);

  const phone = { width: 320, height: 640 };
  for (const [path, heading] of pages) {
    await visitor.page.emulateMedia({ colorScheme: 'light' });
    await visitor.open(path, heading);
    await settled(visitor.page);
    const picture = (name) => process.env.PICTURES && visitor.page.screenshot({ path: join(process.env.PICTURES, `${name}${path.replaceAll('/', '_').replace(/\?.*/, '')}.png`) });
    await picture('light');
    problems.push(...(await judge(visitor.page, path)));
    await visitor.page.emulateMedia({ colorScheme: 'dark' });
    await painted(visitor.page);
    await picture('dark');
    problems.push(...(await judge(visitor.page, path + ' dark')));
    await visitor.page.setViewportSize(phone);
    await painted(visitor.page);
    await picture('phone');
    const wide = await visitor.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) problems.push(`${path} scrolls sideways by ${wide} px at 320 px`);
    await visitor.page.setViewportSize({ width: 1280, height: 860 });
    problems.push(...(await doubled(visitor.page, path)));
    await visitor.page.setViewportSize({ width: 1280, height: 860 });
  }
  equal(problems, [], 'what axe and the phone found');

  // Without scripts the page says so.
  const plain = await Visitor.start(box, { browser: visitor.browser, context: { javaScriptEnabled: false } });
  await plain.page.goto(box.url);
  const said = await (await fetch(box.url, { headers: { Accept: 'text/html' } })).text();
  check(/<noscript>[^]*This page needs JavaScript[^]*<\/noscript>/.test(said), 'the page does not say that it needs scripts');
  equal(await plain.page.locator('form').count(), 0, 'forms without scripts');
  await plain.stop();
});

/** Text of twice the size: nothing leaves the page to the side, and no button loses its words. */
async function doubled(page, path) {
  const session = await page.context().newCDPSession(page);
  await session.send('Page.setFontSizes', { fontSizes: { standard: 32, fixed: 26 } });
  await painted(page);
  const found = await page.evaluate(() => {
    const wide = document.documentElement.scrollWidth - innerWidth;
    const cut = [...document.querySelectorAll('main button, main a.button, main h1, main h2')].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 2 && getComputedStyle(e).overflowX !== 'visible').map((e) => e.textContent.trim().slice(0, 40));
    return { wide, cut };
  });
  if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `large${path.replaceAll('/', '_').replace(/\?.*/, '')}.png`) });
  await session.send('Page.setFontSizes', { fontSizes: { standard: 16, fixed: 13 } });
  await session.detach();
  return [...(found.wide > 0 ? [`${path} scrolls sideways by ${found.wide} px with text of 200 %`] : []), ...found.cut.map((text) => `${path} cuts “${text}” with text of 200 %`)];
}

/** Colours arrive a frame after they were asked for. */
const painted = (page) => page.evaluate(() => new Promise((r) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(r)), 120)));

async function settled(page) {
  await until('skeletons to go', async () => (await page.locator('main .skeleton').count()) === 0, 15_000).catch(() => { throw new Error(`${page.url()} keeps its skeletons`); });
}

/** The page's own files that a visit takes, and their bytes as a browser gets them over TLS: its questions to the API are not page. */
async function weigh(page, visit) {
  const urls = new Set();
  const note = (r) => { const url = new URL(r.url()); if (!url.pathname.startsWith('/api/') && url.protocol === 'http:') urls.add(url.pathname === '/' || !/\.\w+$/.test(url.pathname) ? '/index.html' : url.pathname); };
  page.on('request', note);
  await visit();
  await page.waitForTimeout(500);
  page.off('request', note);
  const bytes = [...urls].reduce((sum, url) => sum + 250 + statSync(join(root, 'webui/dist', url + '.br')).size, 0);
  return { bytes, requests: urls.size, urls: [...urls] };
}

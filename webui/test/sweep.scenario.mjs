// The pages of models, ensembles and steps, as round.mjs looks at them; and what the login and the first page weigh.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { check, equal, judge, root, scenario } from './harness.mjs';
import { round } from './round.mjs';

const demo = { imports: ['dist/demo/models', 'dist/demo/pipelines'] };
const KB = 1024;

export default () => scenario({ ...demo, context: { reducedMotion: 'reduce' } }, async (box, visitor) => {
  const admin = await box.claim();
  const draft = await admin.call('POST', '/drafts', { name: 'faces', config: (await admin.call('GET', '/ensembles')).find((e) => e.name === 'faces').config });
  const pages = [
    ['/', 'Home'], ['/models', 'Models'], ['/models/faces', 'faces'], ['/models/faces/try', 'faces'], ['/models/faces/versions', 'faces'], ['/models/face/graph', 'face'], ['/models/face/configuration', 'face'],
    ['/ensembles', 'Ensembles'], [`/ensembles/${draft.id}`, 'faces'], ['/steps', 'Steps'], ['/steps/edit?from=limit', 'limit'],
  ];

  // The login: what it weighs, and that it needs no page behind it.
  const cold = await weigh(visitor.page, () => visitor.page.goto(box.url).then(() => visitor.page.getByRole('button', { name: 'Log in' }).waitFor()));
  check(cold.bytes <= 35 * KB, `the login takes ${cold.bytes} bytes, more than 35 KB`);
  const problems = await judge(visitor.page, 'login');
  await visitor.login();
  const home = await weigh(visitor.page, () => visitor.page.reload().then(() => visitor.page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()));
  check(home.bytes <= 70 * KB, `the first page takes ${home.bytes} bytes, more than 70 KB`);
  check(home.requests <= 6, `the first page takes ${home.requests} requests, more than 6: ${home.urls.join(' ')}`);

  problems.push(...(await round(visitor, pages)));
  equal(problems, [], 'what axe and the phone found');
});

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

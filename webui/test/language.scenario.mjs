// Each page in German and in English, on a phone, a desk and a wide screen: it says everything, nothing leaves it to the side, no
// button loses its words, and axe finds nothing. The language is the browser's until the reader chooses one, which stays.
import { join } from 'node:path';
import { equal, judge, painted, password, scenario, until, Visitor } from './harness.mjs';

const widths = [1440, 1280, 390];
const tabs = ['general', 'me', 'users', 'keys', 'security', 'system', 'backup', 'configuration', 'about'];
const words = {
  de: { locale: 'de-DE', user: 'anna', name: 'Name', password: 'Passwort', enter: 'Anmelden', home: 'Übersicht', heads: ['Modelle', 'Ensembles', 'Schritte', 'Aktivität', 'Einstellungen'] },
  en: { locale: 'en-GB', user: 'bert', name: 'Name', password: 'Password', enter: 'Log in', home: 'Home', heads: ['Models', 'Ensembles', 'Steps', 'Activity', 'Settings'] },
};

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'], context: { locale: 'de-DE' } }, async (box, german) => {
  const problems = [];
  await german.page.goto(box.url);
  await german.page.getByRole('heading', { name: 'Dieses Gerät einrichten' }).waitFor();
  problems.push(...(await look(german.page, 'de', 'setup')));
  const admin = await box.claim();
  const draft = await admin.call('POST', '/drafts', { name: 'faces', config: (await admin.call('GET', '/ensembles')).find((e) => e.name === 'faces').config });
  await admin.call('POST', '/keys', { name: 'Kamera', rights: ['infer', 'read'], models: [], rate: 5, concurrency: 2 });
  await admin.call('POST', '/users', { name: words.en.user, role: 'admin', password });

  const english = await Visitor.start(box, { browser: german.browser, context: { locale: 'en-GB' } });
  problems.push(...(await enter(german, 'de')));
  await new Promise((r) => setTimeout(r, 1100)); // one login a second
  problems.push(...(await enter(english, 'en')));
  problems.push(...(await Promise.all([visit(german, 'de', draft), visit(english, 'en', draft)])).flat());
  equal(problems, [], 'what the pages lack');
  await choose(german.page, box);
  await english.stop();
});

/** Logs in, and returns what is wrong with the page for that. */
async function enter({ page, url }, code) {
  const w = words[code];
  await page.goto(url);
  await page.getByRole('button', { name: w.enter }).waitFor();
  const problems = await look(page, code, 'login');
  await page.getByLabel(w.name).fill(w.user);
  await page.getByLabel(w.password, { exact: true }).fill(password);
  await page.getByRole('button', { name: w.enter }).click();
  await page.getByRole('heading', { name: w.home, level: 1 }).waitFor();
  return problems;
}

/** Goes to every page. */
async function visit(visitor, code, draft) {
  const { page } = visitor;
  const w = words[code];
  const problems = [];
  const [models, ensembles, steps, activity, settings] = w.heads;
  const pages = [
    ['/', w.home], ['/models', models], ['/models/faces', 'faces'], ['/models/faces/try', 'faces'], ['/models/faces/versions', 'faces'], ['/models/faces/goldens', 'faces'], ['/models/face/graph', 'face'], ['/models/face/configuration', 'face'], ['/models/face/tuning', 'face'], ['/models/face/recording', 'face'], ['/models/gone', 'gone'],
    ['/ensembles', ensembles], [`/ensembles/${draft.id}`, 'faces'], ['/steps', steps], ['/steps/edit?from=limit', 'limit'],
    ['/activity/requests', activity], ['/activity/history', activity], ['/activity/alerts', activity], ['/activity/logs', activity], ['/activity/audit', activity], ...tabs.map((tab) => [`/settings/${tab}`, settings]), ['/api-reference', 'API'],
  ];
  for (const [path, heading] of pages) {
    await visitor.open(path, heading);
    await until('skeletons to go', async () => (await page.locator('main .skeleton').count()) === 0);
    problems.push(...(await look(page, code, path)));
  }
  return problems;
}

/** What is wrong with a page in every width; axe looks at the German one, as other scenarios have it look at the English one. */
async function look(page, code, where) {
  const problems = [];
  equal(await page.evaluate(() => document.documentElement.lang), code, `the language of ${where}`);
  for (const width of widths) {
    await page.setViewportSize({ width, height: 860 });
    await painted(page);
    if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `${code}-${width}-${where.replaceAll('/', '_').replace(/\?.*/, '')}.png`), fullPage: width === 390 });
    const found = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - innerWidth,
      cut: [...document.querySelectorAll('button, a.button, .tabs a, nav span, h1, h2, h3, label, dt')].filter((e) => e.checkVisibility() && !e.matches('.sr, .clip, .clip *') && e.scrollWidth > e.clientWidth + 2 && e.clientWidth > 0 && getComputedStyle(e).overflowX !== 'visible').map((e) => e.textContent.trim().slice(0, 40)),
      outside: [...document.querySelectorAll('main button, main a.button, nav a > span')].filter((e) => e.checkVisibility() && e.children.length === 0 && e.scrollWidth > e.clientWidth + 2 && e.clientWidth > 0).map((e) => e.textContent.trim().slice(0, 40)),
      missing: /undefined|\[object|NaN/.exec(document.body.innerText)?.[0],
    }));
    if (found.wide > 0) problems.push(`${code} ${where} scrolls sideways by ${found.wide} px at ${width} px`);
    for (const text of new Set([...found.cut, ...found.outside])) problems.push(`${code} ${where} cuts “${text}” at ${width} px`);
    if (found.missing) problems.push(`${code} ${where} says “${found.missing}”`);
    if (code === 'de' && width !== 1440) problems.push(...(await judge(page, `${code} ${where} at ${width} px`)));
  }
  await page.setViewportSize({ width: 1280, height: 860 });
  return problems;
}

/** The language is changed without a reload, is kept, and can be given back to the browser. */
async function choose(page, box) {
  await page.goto(box.url);
  await page.getByRole('button', { name: 'Farben, Sprache und Konto' }).click();
  await page.getByRole('menuitem', { name: 'English' }).click();
  await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  equal(await page.evaluate(() => [document.documentElement.lang, document.title]), ['en', 'Home · Edgewise'], 'the language and the title');
  await page.reload();
  await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  await page.goto(box.url + '/settings');
  await page.getByLabel('Language', { exact: true }).selectOption({ label: 'Language of the browser' });
  await page.getByRole('heading', { name: 'Einstellungen', level: 1 }).waitFor();
  await page.getByLabel('Sprache', { exact: true }).selectOption('en');
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor();
}

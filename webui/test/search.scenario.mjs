// Ctrl K finds pages, models, versions, steps, ensembles and settings, by keyboard alone, in each colour and width.
import { check, equal, inspect, judge, password, scenario, until } from './harness.mjs';
import { times } from './onnx.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  for (const factor of [2, 3]) {
    const pushed = await admin.fetch(`/api/v1/models/gauge/versions?promote=true&file=model.onnx`, { method: 'POST', body: times(factor), headers: { 'Content-Type': 'application/octet-stream' } });
    check(pushed.ok, `pushing: ${await pushed.text()}`);
  }
  const draft = await admin.call('POST', '/drafts', { name: 'counting', config: (await admin.call('GET', '/ensembles')).find((e) => e.name === 'faces').config });

  // The dialog is no part of the first page: it is loaded when it is asked for.
  const loaded = [];
  page.on('request', (r) => { if (/assets\/Search-.*js$/.test(r.url())) loaded.push(r.url()); });
  await visitor.login();
  equal(loaded, [], 'what was loaded of the search before it was asked for');
  const field = page.getByRole('combobox', { name: 'A page, model, version, step, ensemble or setting' });
  const open = async (ask = () => page.keyboard.press('Control+k')) => {
    await ask();
    await until('the field to have the focus', () => field.evaluate((e) => e === document.activeElement).catch(() => false));
  };
  const first = () => page.getByRole('option', { selected: true });
  const problems = [];

  // Everything is found by its name, and Enter goes there.
  const wanted = [
    ['gaug', 'gauge', '/models/gauge', 'gauge'],
    ['gauge 1', 'gauge version 1', '/models/gauge?version=1', 'gauge'],
    ['faces', 'faces', '/models/faces', 'faces'],
    ['counting', 'counting', `/ensembles/${draft.id}`, 'counting'],
    ['face_input', 'face_input', '/models/face_input', 'face_input'],
    ['activity', 'Activity', '/activity', 'Activity'],
    ['audit', 'Audit', '/activity/audit', 'Activity'],
    ['factory', 'Factory reset', '/settings/system', 'Settings'],
    ['reserve_bytes', 'store.reserve_bytes', '/settings/configuration?q=store.reserve_bytes', 'Settings'],
  ];
  for (const [words, name, address, heading] of wanted) {
    await open();
    await page.keyboard.type(words);
    await until(`${name} to be found`, async () => (await first().locator('.strong').textContent().catch(() => '')) === name);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
    equal(await page.evaluate(() => location.pathname + location.search), address, `where ${words} leads`);
    await until('the heading to have the focus', () => page.evaluate(() => !document.querySelector('dialog[open]')));
  }
  equal(loaded.length, 1, 'times that the search was loaded');
  await page.getByRole('searchbox', { name: 'Find a limit' }).waitFor();
  equal(await page.getByRole('searchbox', { name: 'Find a limit' }).inputValue(), 'store.reserve_bytes', 'the limit that is looked for');

  // Arrow keys choose, Escape closes and gives the focus back, also to a field that is being written in.
  await page.getByRole('searchbox', { name: 'Find a limit' }).focus();
  await open();
  equal(await first().locator('.strong').textContent(), 'Home', 'what is chosen at first');
  await page.keyboard.press('ArrowDown');
  equal(await first().locator('.strong').textContent(), 'Models', 'what is chosen then');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  equal(await first().locator('.strong').textContent(), 'API', 'what is chosen last');
  await page.keyboard.type('no such thing');
  await page.getByText('Nothing that matches.').waitFor();
  problems.push(...(await inspect(page, 'a search without results')));
  await page.keyboard.press('Escape');
  await until('the focus to return', () => page.getByRole('searchbox', { name: 'Find a limit' }).evaluate((e) => e === document.activeElement));

  // In every width, by the button, in both colours.
  for (const width of [1440, 1280, 390]) {
    await page.setViewportSize({ width, height: 860 });
    await open(() => page.getByRole('button', { name: 'Search' }).click());
    await page.keyboard.type('face');
    await page.getByRole('option').filter({ hasText: 'faces' }).first().waitFor();
    problems.push(...(width === 1280 ? await judge(page, 'the search') : await inspect(page, `the search at ${width} px`)));
    equal(await page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - innerWidth)), 0, `what leaves the page to the side at ${width} px`);
    await page.getByRole('option').filter({ hasText: 'faces' }).first().click();
    await page.getByRole('heading', { name: 'faces', level: 1 }).waitFor();
    check(!(await page.getByRole('dialog').isVisible()), 'the search is still open');
  }
  equal(problems, [], 'what axe found');

  // The reader who may only look is not shown what is not for them.
  await admin.call('POST', '/users', { name: 'vera', role: 'viewer', password });
  await page.setViewportSize({ width: 1280, height: 860 });
  await page.goto('about:blank');
  await visitor.context.clearCookies();
  await visitor.login('vera');
  await page.getByText('Live', { exact: true }).waitFor(); // no topic of the stream is beyond a viewer
  await open();
  await page.keyboard.type('reserve_bytes');
  await page.getByText('Nothing that matches.').waitFor();
  await field.fill('gauge');
  await page.getByRole('option').filter({ hasText: 'gauge' }).first().waitFor();
});

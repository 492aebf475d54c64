// A step: written, compiled and tried in the browser, deployed, and asked by a program; and one that traps in an
// ensemble. By keyboard alone.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { check, equal, everyWidth, inspect, press, scenario, type, until } from './harness.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  await visitor.login();
  await press(page.getByRole('link', { name: 'Steps', exact: true }).first(), 'Enter');
  await press(page.getByRole('link', { name: /Multiply numbers/ }), 'Enter');
  await page.getByRole('heading', { name: 'scale', level: 1 }).waitFor();
  const source = page.getByRole('textbox', { name: 'Source of the step' });
  await source.waitFor();

  // A mistake is shown at its line.
  await source.focus();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\nlet mistake: i32 = "text";');
  await press(page.getByRole('button', { name: 'Compile', exact: true }), 'Enter');
  const compiler = page.getByRole('region', { name: 'Compiler' });
  await compiler.getByText(/^line \d+/).first().waitFor();
  const problems = await everyWidth(page, 'a mistake in a step');
  await page.keyboard.press('Escape');
  await source.focus();
  for (let i = 0; i < 'let mistake: i32 = "text";'.length + 1; i++) await page.keyboard.press('Backspace');

  await press(page.getByRole('button', { name: 'Compile and run' }), 'Enter');
  await page.getByRole('article', { name: 'Output y' }).waitFor();
  check((await page.getByRole('article', { name: 'Output y' }).innerText()).includes('5'), '2.5 times 2 is 5');

  // One that traps says where: the function, and the line of the source, to which a button goes.
  await visitor.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await source.focus();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Control+c');
  const scale = await page.evaluate(() => navigator.clipboard.readText());
  const trapping = scale.replace(/(function process\([^{]*\{)/, '$1\n  unreachable();');
  check(trapping !== scale, 'the source has no function process');
  const line = trapping.split('\n').findIndex((text) => text.includes('unreachable();')) + 1;
  const replace = async (text) => {
    await source.focus();
    await page.evaluate((t) => navigator.clipboard.writeText(t), text);
    await page.keyboard.press('Control+a');
    await page.keyboard.press('Control+v');
  };
  await replace(trapping);
  await press(page.getByRole('button', { name: 'Compile and run' }), 'Enter');
  await page.getByText(new RegExp(`trap: unreachable in function .*process \\(step\\.ts:${line}\\)`)).waitFor();
  problems.push(...(await everyWidth(page, 'a step that traps')));
  await press(page.getByRole('button', { name: `Go to line ${line}` }), 'Enter');
  await page.locator('.cm-activeLine').filter({ hasText: 'unreachable();' }).waitFor();

  // An endless one is stopped, in the box, too, which else would run it for a minute.
  await replace(scale.replace(/(function process\([^{]*\{)/, '$1\n  while (true) {}'));
  const trials = () => readdirSync(join(box.data, 'uploads')).filter((name) => name.startsWith('trial-')).length;
  await press(page.getByRole('button', { name: 'Compile and run' }), 'Enter');
  await page.getByRole('button', { name: 'Running …' }).waitFor();
  await until('the box to run it', trials);
  await press(page.getByRole('button', { name: 'Cancel' }), 'Enter');
  await page.getByRole('button', { name: 'Compile and run' }).waitFor();
  await until('the box to end it', () => trials() === 0, 45_000);
  await replace(scale);

  await press(page.getByRole('button', { name: 'Deploy' }), 'Enter');
  await type(page.getByRole('dialog').getByLabel('Name'), 'doubled');
  problems.push(...(await inspect(page, 'the question before deploying')));
  await press(page.getByRole('dialog').getByRole('button', { name: 'Deploy' }), 'Enter');
  await page.waitForURL(/\/models\/doubled/);
  const answer = await admin.call('GET', '/models/doubled');
  equal(answer.labels.map((l) => l.name), ['live'], 'labels of the step');
  const response = await admin.fetch('/v2/models/doubled/infer', { method: 'POST', body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [4, 5] }] }) });
  check(response.ok, `asking the step: ${await response.clone().text()}`);
  equal((await response.json()).outputs[0].data, [8, 10], 'what the deployed step answers');

  // A trial at the load has run it, so nothing marks it as not verified.
  equal(answer.versions[0].health?.unverified, undefined, 'why the step is not verified');
  await visitor.open('/models', 'Models');
  await page.getByRole('row', { name: /doubled/ }).getByText('Serving').waitFor();
  equal(await page.getByText('not verified').count(), 0, 'marks "not verified"');

  // Its source came along: it can be edited again.
  await visitor.open('/steps/edit?model=doubled', 'doubled');
  await page.getByText('edgewise_describe').first().waitFor();

  // Tab indents in the editor; after Escape it leaves it.
  await source.focus();
  await until('Escape and Tab to leave the editor', async () => {
    await page.keyboard.press('Escape');
    await page.keyboard.press('Tab');
    return page.evaluate(() => !document.activeElement.closest('[data-keys]'));
  });

  // One that traps: the ensemble's graph says where, the others' answers are there, and the log is one click away.
  visitor.allow(/status of (400|422|500)/);
  await replace(trapping);
  await press(page.getByRole('button', { name: 'Deploy' }), 'Enter');
  await type(page.getByRole('dialog').getByLabel('Name'), 'trapping');
  await press(page.getByRole('dialog').getByRole('button', { name: 'Deploy' }), 'Enter');
  await page.waitForURL(/\/models\/trapping/);
  await page.getByText('Version 1 is not verified.').waitFor();
  await page.getByText(/a run with ones failed: .*trap: unreachable/).first().waitFor();
  await visitor.open('/models/trapping/try', 'trapping');
  await type(page.getByRole('textbox', { name: 'x' }), '[[2, 3]]');
  await press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
  await page.getByRole('alert').getByText(new RegExp(`process \\(step\\.ts:${line}\\)`)).first().waitFor();
  await visitor.open('/ensembles', 'Ensembles');
  await press(page.getByRole('button', { name: 'New ensemble' }), 'Enter');
  await type(page.getByLabel('Name'), 'chain');
  await page.keyboard.press('Enter');
  await press(page.getByRole('button', { name: 'List' }), 'Enter');
  for (const model of ['doubled', 'trapping']) {
    await type(page.getByRole('combobox', { name: 'Add a step' }), model);
    await page.getByRole('option', { name: model }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: new RegExp(`\\. ${model}\\b`) }).waitFor();
  }
  const [one, two] = [1, 2].map((n) => page.getByRole('listitem', { name: new RegExp(`^Step ${n}:`) }));
  await press(one.getByLabel(/^x/), 'End'); // a new input of the ensemble
  await press(two.getByLabel(/^x/), 'y'); // the only choice that begins so: y of 1. doubled
  await press(two.getByRole('checkbox', { name: /^y/ }), 'Space');
  await page.getByText('Can be published').waitFor();
  await press(page.getByRole('button', { name: 'Graph' }), 'Enter');
  await type(page.getByRole('textbox', { name: 'x' }), '[[2, 3]]');
  await press(page.getByRole('button', { name: 'Run the draft' }), 'Enter');
  await page.getByRole('article', { name: /^Tensor/ }).filter({ hasText: 'from step 1. doubled' }).waitFor();
  const failed = page.getByLabel('Step 2: trapping');
  await failed.getByText('failed').waitFor();
  check((await failed.getAttribute('class')).includes('problem'), 'the step that failed is not outlined');
  check(!(await page.getByLabel('Step 1: doubled').getAttribute('class')).includes('problem'), 'a step that did not fail is outlined');
  problems.push(...(await everyWidth(page, 'a run that failed')));
  equal(problems, [], 'what axe found');
  await press(page.getByRole('link', { name: 'Logs' }), 'Enter');
  await page.getByRole('log').waitFor();
  equal(await page.getByRole('searchbox', { name: 'Find in the log' }).inputValue(), 'trapping', 'what the log is searched for');
});

// The configuration of a model in the page: a form and its text, two views of one state, by keyboard alone; saving makes a version and
// shows what differs first. A version loaded for testing beside the live one, and both asked the same. A model taken offline and back.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, drop, equal, everyWidth, inspect, pick, press, scenario, type, until } from './harness.mjs';
import { colours } from './onnx.mjs';
import { png } from './picture.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/status of 503/);
  const { page } = visitor;
  const folder = mkdtempSync(join(tmpdir(), 'edgewise-configuration-'));
  const file = (name, body) => { writeFileSync(join(folder, name), body); return join(folder, name); };
  const problems = [];
  await visitor.login();
  await visitor.open('/models', 'Models');
  await drop(page, page.getByRole('main'), [file('paint.onnx', colours())]);
  const job = page.getByRole('article', { name: 'Job of paint.onnx' });
  await press(job.getByRole('button', { name: 'Activate' }), 'Enter');
  await page.getByText('Serving').first().waitFor();

  // The form writes the text, and the text fills the form. Nothing is done with a mouse but the drops.
  await visitor.open('/models/paint/configuration', 'paint');
  const text = page.getByRole('textbox', { name: 'config.pbtxt' });
  const form = page.getByRole('form', { name: 'Configuration as a form' });
  const save = page.getByRole('button', { name: 'Save as a new version' });
  const holds = (what) => until(`the text to hold ${what}`, async () => (await text.inputValue()).includes(what));
  await form.waitFor();
  check(await save.isDisabled(), 'a configuration that nobody has changed can be saved');
  await press(form.getByRole('button', { name: 'Set the instances' }), 'Enter');
  await holds('instance_group');
  await press(form.getByLabel('Instances of group 1'), 'Control+a', '3', 'Tab');
  await holds('count: 3');
  await press(form.getByLabel('Isolation', { exact: true }), 'ArrowDown', 'ArrowDown', 'Tab');
  await holds('string_value: "process"');
  await press(form.getByRole('button', { name: 'Add a warm-up request' }), 'Enter');
  await holds('zero_data: true');
  await press(form.getByText('Rate limiter', { exact: true }), 'Enter');
  await type(form.getByLabel('Resources of group 1'), 'camera:1, bus:2:global');
  await page.keyboard.press('Tab');
  await holds('global: true');
  await type(form.getByLabel('GPU memory (MiB)'), '512');
  await page.keyboard.press('Tab');
  await holds('string_value: "536870912"');
  await text.focus();
  await page.keyboard.press('Control+Home');
  await page.keyboard.type('# measured on line 3\n');
  await press(text, 'Control+End');
  await page.keyboard.type('response_cache { enable: true }\n');
  await until('the form to show what was typed', () => form.getByLabel('Cache responses').isChecked());
  await press(form.getByLabel('Instances of group 1'), 'Control+a', '2', 'Tab');
  await holds('count: 2');
  check((await text.inputValue()).startsWith('# measured on line 3\n'), `the comment is gone: ${await text.inputValue()}`);

  // Sequences, which begin in the text.
  const without = await text.inputValue();
  await press(text, 'Control+End');
  await page.keyboard.type('sequence_batching { max_sequence_idle_microseconds: 5000000 }\n');
  await until('the form to show the sequences', async () => (await form.getByLabel('A sequence ends after (µs) without a request').inputValue().catch(() => '')) === '5000000');
  await press(form.getByLabel('Strategy'), 'End');
  await holds('oldest');
  await type(form.getByLabel('Sequences that are batched together'), '64');
  await page.keyboard.press('Tab');
  await holds('max_candidate_sequences: 64');
  problems.push(...(await inspect(page, 'sequences in the form')));
  await text.fill(without);
  await form.getByLabel('Strategy').waitFor({ state: 'detached' });

  // What is wrong is told with its line, and cannot be saved.
  await press(text, 'Control+End');
  await page.keyboard.type('max_batch_sise: 4\n');
  const line = page.getByRole('button', { name: /^Line \d+$/ });
  await line.waitFor();
  check(await save.isDisabled(), 'what is wrong can be saved');
  problems.push(...(await inspect(page, 'a configuration with a problem')));
  await press(line, 'Enter');
  equal(await text.evaluate((t) => t.value.slice(t.selectionStart, t.selectionEnd)), 'max_batch_sise: 4', 'what the button selects');
  await page.keyboard.press('Backspace');
  await line.waitFor({ state: 'detached' });
  problems.push(...(await everyWidth(page, 'the configuration')));

  // Before it is saved, the difference to the live version is shown.
  await until('the button to be ready', () => save.isEnabled());
  await press(save, 'Enter');
  const dialog = page.getByRole('dialog', { name: 'A new version of paint' });
  await dialog.getByText('config.model_warmup').waitFor();
  await dialog.getByText('What differs from version 1, which is live:').waitFor();
  problems.push(...(await inspect(page, 'what differs')));
  await press(dialog.getByLabel('Activate it once it is loaded'), 'Space');
  await press(dialog.getByRole('button', { name: 'Save', exact: true }), 'Enter');
  await page.getByText('Version 2 of paint is stored.').waitFor();
  const stored = await admin.call('GET', '/models/paint');
  equal(stored.labels.find((l) => l.name === 'live').version, 1, 'the live version');
  equal(stored.versions.map((v) => v.files.map((f) => f.path)), [['model.onnx'], ['config.pbtxt', 'model.onnx']], 'the files of the versions');

  // It is loaded beside the live one, which stays, and both are asked the same.
  await pick(page, 'More about version 2', 'Load for testing');
  await page.getByRole('row', { name: /^2 / }).getByRole('button', { name: 'Remove the label test' }).waitFor();
  await page.getByRole('row', { name: /^2 / }).getByText('Ready').waitFor();
  await visitor.open('/models/paint/try', 'paint');
  equal(await page.getByLabel('Compare with').inputValue(), '2', 'what the live version is compared with');
  await visitor.open('/models/paint/try?version=2', 'paint');
  equal(await page.getByLabel('Compare with').inputValue(), '1', 'what version 2 is compared with');
  await drop(page, page.locator('.drop'), [file('red.png', png(96, 64, [250, 10, 10]))]);
  await page.getByText('red.png', { exact: true }).waitFor();
  await press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
  for (const version of [1, 2]) {
    const answer = page.getByRole('region', { name: `Version ${version}`, exact: true }).getByRole('region', { name: 'Output scores' });
    check((await answer.getByRole('listitem').first().innerText()).startsWith('red'), `version ${version} does not say red`);
  }
  problems.push(...(await everyWidth(page, 'two answers')));
  equal((await admin.call('GET', '/models/paint')).labels.find((l) => l.name === 'live').version, 1, 'the live version after the trial');

  // Offline, and back.
  await visitor.open('/models/paint', 'paint');
  await pick(page, 'More about paint', 'Take offline');
  problems.push(...(await inspect(page, 'a question before a model goes offline')));
  await press(page.getByRole('dialog').getByRole('button', { name: 'Take offline' }), 'Enter');
  await page.getByText('The model is offline: requests to it are refused.').waitFor();
  equal((await admin.call('GET', '/models/paint')).wanted, false, 'whether it is to be served');
  problems.push(...(await everyWidth(page, 'a model that is offline')));
  await press(page.getByRole('button', { name: 'Bring it back' }), 'Enter');
  await page.getByText('Serving').first().waitFor();
  equal(problems, [], 'what axe found');
  rmSync(folder, { recursive: true });
});

// An ensemble: put together by keyboard alone, run with every tensor in view, published; and a line that cannot be.
import { check, equal, everyWidth, inspect, sample, scenario, until } from './harness.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/status of 409/);
  const { page } = visitor;
  await visitor.login();
  await visitor.open('/ensembles', 'Ensembles');
  await page.getByRole('button', { name: 'New ensemble' }).press('Enter');
  await page.getByLabel('Name').fill('mine');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'mine', level: 1 }).waitFor();

  // The list is the way of the keyboard.
  await page.getByRole('button', { name: 'List' }).press('Enter');
  for (const model of ['face_input', 'face']) {
    await page.getByRole('combobox', { name: 'Add a step' }).fill(model);
    await page.getByRole('option', { name: model }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: new RegExp(`\\. ${model}\\b`) }).waitFor();
  }
  const first = page.getByRole('listitem', { name: /^Step 1:/ });
  const second = page.getByRole('listitem', { name: /^Step 2:/ });
  await first.getByLabel(/^image/).selectOption('+');
  const wrong = await second.getByLabel(/^input:0/).locator('option', { hasText: 'map of 1. face_input' });
  check(await wrong.isDisabled(), 'a tensor that does not fit can be chosen');
  check(/wants/.test(await wrong.innerText()), 'the reason does not stand beside it');
  await second.getByLabel(/^input:0/).selectOption({ label: 'tensor of 1. face_input' });
  await second.getByRole('checkbox', { name: /^Identity:0/ }).press('Space');
  await page.getByText('Can be published').waitFor();
  await page.getByRole('button', { name: 'Undo' }).press('Enter');
  await page.getByRole('button', { name: 'Redo' }).press('Enter');
  await page.getByText('Saved', { exact: true }).waitFor();

  // A test run shows what is between the steps.
  await page.locator('input[type=file]').setInputFiles(sample('face.jpg'));
  await page.getByRole('button', { name: 'Run the draft' }).press('Enter');
  await page.getByRole('article', { name: 'Tensor tensor' }).waitFor();
  await page.getByRole('article', { name: /^Tensor Identity/ }).first().waitFor();
  await page.getByText(/in all$/).waitFor();
  const problems = await everyWidth(page, 'the list and a test run');

  // In the graph a wrong line is refused, with the reason.
  await page.getByRole('button', { name: 'Graph' }).press('Enter');
  const from = page.getByLabel('map, an output of face_input');
  const to = page.getByLabel('input:0, an input of face');
  await from.waitFor();
  await page.waitForTimeout(400);
  problems.push(...(await everyWidth(page, 'the graph after a run')));
  const a = await from.boundingBox();
  const b = await to.boundingBox();
  await page.mouse.move(a.x + a.width / 2, a.y + a.height / 2);
  await page.mouse.down();
  await page.mouse.move((a.x + b.x) / 2, (a.y + b.y) / 2, { steps: 4 });
  await page.mouse.move(b.x + b.width / 2, b.y + b.height / 2, { steps: 4 });
  await page.getByText(/That does not fit: “input:0” wants 4 dimensions/).waitFor();
  await page.mouse.up();

  // Somebody else saves the same draft: both are shown, and nothing is lost.
  const id = page.url().split('/').at(-1);
  const stored = await admin.call('GET', `/drafts/${id}`);
  await admin.call('PUT', `/drafts/${id}`, { name: stored.name, config: stored.config, revision: stored.revision });
  await page.getByRole('button', { name: 'List' }).click();
  await second.getByRole('checkbox', { name: /^Identity_1:0/ }).check();
  await page.getByRole('dialog', { name: /Somebody else/ }).waitFor();
  problems.push(...(await everyWidth(page, 'a draft that two edit')));
  for (let i = 0; i < 3; i++) await page.keyboard.press('Escape'); // neither is chosen by chance
  await page.getByRole('button', { name: 'Keep mine' }).click();
  check(await second.getByRole('checkbox', { name: /^Identity_1:0/ }).isChecked(), 'what was kept is gone');
  await page.getByText('Saved', { exact: true }).waitFor();

  await page.getByRole('button', { name: 'Publish' }).press('Enter');
  problems.push(...(await inspect(page, 'the question before publishing')));
  await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).press('Enter');
  await page.getByRole('heading', { name: 'mine', level: 1 }).waitFor();
  await page.getByText('mine version 1 is live.').waitFor();
  const model = await until('the model', async () => (await admin.call('GET', '/models')).find((m) => m.name === 'mine'));
  check(model.labels.some((l) => l.name === 'live' && l.version === 1), 'it is not live');
  equal(problems, [], 'what axe found');
});

// A step: written, compiled and tried in the browser, deployed, and asked by a program.
import { check, equal, scenario } from './harness.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  await visitor.login();
  await page.getByRole('link', { name: 'Steps', exact: true }).first().click();
  await page.getByRole('link', { name: /Multiply numbers/ }).click();
  await page.getByRole('heading', { name: 'scale', level: 1 }).waitFor();
  const source = page.getByRole('textbox', { name: 'Source of the step' });
  await source.waitFor();

  // A mistake is shown at its line.
  await source.focus();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\nlet mistake: i32 = "text";');
  await page.getByRole('button', { name: 'Compile', exact: true }).click();
  const compiler = page.getByRole('region', { name: 'Compiler' });
  await compiler.getByText(/^line \d+/).first().waitFor({ timeout: 120_000 });
  await page.keyboard.press('Escape');
  await source.focus();
  for (let i = 0; i < 'let mistake: i32 = "text";'.length + 1; i++) await page.keyboard.press('Backspace');

  await page.getByRole('button', { name: 'Compile and run' }).click();
  await page.getByRole('article', { name: 'Output y' }).waitFor({ timeout: 120_000 });
  check((await page.getByRole('article', { name: 'Output y' }).innerText()).includes('5'), '2.5 times 2 is 5');

  await page.getByRole('button', { name: 'Deploy' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('doubled');
  await page.getByRole('dialog').getByRole('button', { name: 'Deploy' }).click();
  await page.getByRole('heading', { name: 'doubled', level: 1 }).waitFor();
  for (let i = 0; i < 300 && (await admin.fetch('/api/v1/models/doubled')).status !== 200; i++) await new Promise((r) => setTimeout(r, 100));
  const answer = await admin.call('GET', '/models/doubled');
  equal(answer.labels.map((l) => l.name), ['live'], 'labels of the step');
  const response = await admin.fetch('/v2/models/doubled/infer', { method: 'POST', body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [4, 5] }] }) });
  equal((await response.json()).outputs[0].data, [8, 10], 'what the deployed step answers');

  // Its source came along: it can be edited again.
  await visitor.open('/steps/edit?model=doubled', 'doubled');
  await page.getByText('edgewise_describe').first().waitFor();
});

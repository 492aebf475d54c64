// From power-on to an answered request, by a person with a model file and no manual.
import { Visitor, check, drop, equal, password, patience, root, sample, scenario } from './harness.mjs';
import { join } from 'node:path';

export default () => scenario({}, async (box, visitor) => {
  const { page } = visitor;
  visitor.allow(/status of (401|403|409|429)/);
  await page.goto(box.url);
  await page.getByRole('heading', { name: 'Set up this box' }).waitFor();

  // A wrong code is told, and what was typed stays.
  await page.getByLabel('Claim code').fill('AAAA-BBBB-CCCC-DDDD');
  await page.getByLabel('Your name on this box').fill('anna');
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Claim this box' }).click();
  await page.getByRole('alert').waitFor();
  equal(await page.getByLabel('Your name on this box').inputValue(), 'anna', 'the name after a wrong code');

  await page.getByLabel('Claim code').fill(box.code.toLowerCase().replaceAll('-', ' '));
  await page.getByRole('button', { name: 'Claim this box' }).click();
  await page.getByLabel('Name of this box').waitFor();

  // A second browser lands at the login, and a reload on the right step.
  const second = await Visitor.start(box, { browser: visitor.browser });
  await second.page.goto(box.url);
  await second.page.getByRole('button', { name: 'Log in' }).waitFor();
  await second.stop();
  await page.reload();
  await page.getByLabel('Name of this box').fill('Line 3 camera');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: /connection is/ }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: /connection is/ }).waitFor();
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Add a model' }).click();

  // The model: dropped, understood, activated, asked.
  await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
  await drop(page, page.getByRole('main'), [join(root, 'dist/demo/models/ocr_direction/1/model.onnx')]);
  const job = page.getByRole('article', { name: /Job of model.onnx/ });
  await job.getByText('Ready to activate').waitFor();
  await job.getByText('softmax_0.tmp_0').first().waitFor();
  await job.getByLabel('Name').fill('direction');
  await job.getByRole('button', { name: 'Activate' }).click();
  await job.getByRole('link', { name: /^Try/ }).click();
  await page.getByRole('heading', { name: 'direction', level: 1 }).waitFor();
  await drop(page, page.locator('.drop'), [sample('text.png')]);
  await page.getByText('text.png', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('region', { name: 'Output softmax_0.tmp_0' }).waitFor({ timeout: patience });
  check((await page.getByText(/round trip/).innerText()).includes('version 1'), 'the answer names its version');

  // Out and in again; a wrong password is refused, and none is ever in an address.
  await page.getByRole('button', { name: 'Colours, language and account' }).click();
  await page.getByRole('menuitem', { name: 'Log out' }).click();
  await page.getByLabel('Name').fill('anna');
  await page.getByLabel('Password', { exact: true }).fill('not the password');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('alert').waitFor();
  await page.waitForTimeout(1100); // one try a second
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: 'direction', level: 1 }).waitFor();
  await page.getByText('Line 3 camera').first().waitFor();
});

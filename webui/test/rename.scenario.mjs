// A model, an ensemble and a step get other names, by keyboard alone: programs reach them at once, what belongs to them stays, the way
// back is there, and what an ensemble runs by its name is refused with those that do.
import { readFileSync } from 'node:fs';
import { check, equal, everyWidth, pick, press, sample, scenario, type, until } from './harness.mjs';

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/status of (404|409)/); // a page may ask for the old name once more
  const { page } = visitor;
  const device = await box.device(admin, 'camera', { rights: ['infer'], models: ['faces'] });
  const ask = async (name) => (await device.fetch(`/v2/models/${name}/infer`, { method: 'POST', body: readFileSync(sample('face.jpg')), headers: { 'Content-Type': 'image/jpeg' } })).status;
  const dialog = page.getByRole('dialog');
  const open = async (name) => {
    await visitor.open(`/models/${name}`, name);
    await pick(page, `More about ${name}`, 'Rename');
    await dialog.waitFor();
  };
  const problems = [];
  await visitor.login();
  await admin.call('PATCH', '/models/faces', { notes: 'of hall 3' });
  equal(await ask('faces'), 200, 'the camera before');

  // An ensemble: names that exist and names that cannot be are told before anything is sent.
  await open('faces');
  const name = dialog.getByLabel('New name');
  const rename = dialog.getByRole('button', { name: 'Rename' });
  check(await rename.isDisabled(), 'the name that it has can be given');
  await type(name, 'vad');
  await dialog.getByText('There is a model vad already.').waitFor();
  check(await rename.isDisabled(), 'a name that exists can be given');
  await type(name, 'people in/hall 3');
  check(!(await name.evaluate((e) => e.validity.valid)), 'a name that cannot be is accepted');
  await type(name, 'people');
  await until('the name to be accepted', () => rename.isEnabled());
  problems.push(...(await everyWidth(page, 'the question for a name')));
  await name.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'people', level: 1 }).waitFor();
  await page.getByText('faces is called people now.').waitFor();
  await page.getByText('of hall 3').first().waitFor();
  equal([await ask('people'), await ask('faces')], [200, 403], 'the camera, whose key names the model');
  equal((await admin.fetch('/v2/models/faces')).status, 404, 'the old name');
  check((await admin.call('GET', '/models')).some((m) => m.name === 'people'), 'the new name is not in the list');
  await visitor.open('/activity/audit', 'Activity');
  await page.getByText('to people').first().waitFor();

  // The way back. The name can be given before the page knows what runs the model.
  let tell;
  const known = new Promise((r) => { tell = r; });
  await page.route('**/models/people/dependants', async (route) => { await known; await route.continue(); });
  await open('people');
  await type(name, 'visitors');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'visitors', level: 1 }).waitFor();
  tell();
  await page.unroute('**/models/people/dependants', { behavior: 'wait' });
  await press(page.getByRole('button', { name: 'Undo' }), 'Enter');
  await page.getByRole('heading', { name: 'people', level: 1 }).waitFor();
  equal(await ask('people'), 200, 'the camera after the way back');

  // A model that an ensemble runs: it is said which one, and nothing can be sent.
  await open('face');
  await dialog.getByRole('link', { name: 'people version 1' }).waitFor();
  check(await rename.isDisabled(), 'what an ensemble runs can be renamed');
  problems.push(...(await everyWidth(page, 'a name that cannot be changed')));
  await page.keyboard.press('Escape');

  // Without the ensemble, the model and a step are free.
  const step = (await admin.call('GET', '/models/people/versions/1')).config.ensemble_scheduling.step.map((s) => s.model_name).find((n) => n !== 'face');
  await admin.call('DELETE', '/models/people');
  for (const [old, next] of [['face', 'face_finder'], [step, 'my_step']]) {
    await open(old);
    await type(name, next);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: next, level: 1 }).waitFor();
    await page.getByText('Serving').first().waitFor();
  }
  equal(problems, [], 'what axe found');
});

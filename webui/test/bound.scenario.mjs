// What bounds a model: too few requests first, then a sentence with figures and the model's place below the roofs of the processor.
import { check, equal, everyWidth, scenario } from './harness.mjs';
import { heavy } from './onnx.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  const pushed = await admin.fetch('/api/v1/models/heavy/versions?promote=true', { method: 'POST', body: heavy(200), headers: { 'Content-Type': 'application/octet-stream' } });
  check(pushed.ok, `pushing: ${await pushed.text()}`);
  const r = await admin.call('POST', '/roofline');
  check(r.compute[0] > 1e8 && r.read[0] > 1e8 && r.cores >= 1, `the processor: ${JSON.stringify(r)}`);
  await visitor.login();
  const card = page.locator('section', { has: page.getByRole('heading', { name: 'What bounds it' }) });
  await visitor.open('/models/heavy', 'heavy');
  await card.getByText('Too few requests to say.').waitFor();

  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 256], data: Array(256).fill(1) }] });
  for (let i = 0; i < 25; i++) {
    const asked = await admin.fetch('/v2/models/heavy/infer', { method: 'POST', body, headers: { 'Content-Type': 'application/json' } });
    check(asked.ok, `asking: ${asked.status}`);
  }
  const bound = await admin.call('GET', '/models/heavy/versions/1/bound');
  equal([bound.requests, bound.work.inputs, Math.round(bound.work.operations / 1e6)], [25, 'clients', 6711], 'the work of a run');
  await page.reload();
  await card.getByRole('img', { name: /GFLOP\/s of .*% of the roof/ }).waitFor();
  await card.getByText(/a request: .* in the queue/).waitFor();
  const problems = await everyWidth(page, 'what bounds a model');

  // What the box can carry: a rate that every machine holds, checked by a run, and one that none does.
  await visitor.open('/settings/system', 'Settings');
  const form = page.locator('section', { has: page.getByRole('heading', { name: 'What the box can carry' }) });
  await form.getByLabel('Requests a second of heavy').fill('0.5');
  await form.getByRole('button', { name: 'Check by a run' }).click();
  await form.getByText('The box carries it.').waitFor();
  await form.getByText('The run held these rates.').waitFor();
  problems.push(...(await everyWidth(page, 'what the box can carry')));
  await form.getByLabel('Requests a second of heavy').fill('1000000');
  await form.getByRole('button', { name: 'Ask' }).click();
  await form.getByText('The box does not carry it.').waitFor();
  equal(problems, [], 'what axe found');
});

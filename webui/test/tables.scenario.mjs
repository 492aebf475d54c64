// Tables and lists: sorted by their heads, filtered, and both kept in the address, so that a link and the way back restore them; the
// trace of a request that was tried. By keyboard alone.
import { tar } from './archive.mjs';
import { check, equal, everyWidth, inspect, press, scenario, until } from './harness.mjs';
import { times } from './onnx.mjs';

// A request that comes alone waits for three more until its delay is over.
const patient = `max_batch_size: 4
input [{ name: "x" data_type: TYPE_FP32 dims: [4] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [4] }]
dynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 300000 }
`;

const push = async (admin, name, factor, more) => {
  const pushed = await admin.fetch(`/api/v1/models/${name}/versions?promote=true&file=model.onnx`, { method: 'POST', body: times(factor, more), headers: { 'Content-Type': 'application/octet-stream' } });
  check(pushed.ok, `pushing: ${await pushed.text()}`);
};

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  for (const name of ['gauge10', 'gauge9']) await push(admin, name, 2);
  for (const factor of [3, 4]) await push(admin, 'gauge9', factor, true);
  const { page } = visitor;
  const problems = [];
  const address = () => page.evaluate(() => location.pathname + location.search);
  const names = () => page.locator('table.models .name').allTextContents();
  const shows = async (list, text) => {
    await until(`${text}: ${list}`, async () => JSON.stringify(await names()) === JSON.stringify(list)).catch(async (e) => { throw new Error(`${e.message}, but there are ${await names()}`); });
  };
  await visitor.login();

  // The models, sorted by keyboard: names with numbers as numbers, and back.
  await visitor.open('/models', 'Models');
  await page.getByRole('searchbox', { name: 'Find a model' }).fill('gauge');
  await shows(['gauge10', 'gauge9'], 'the models that match');
  const head = page.getByRole('columnheader', { name: 'Name' });
  await press(head.getByRole('button'), 'Enter');
  await shows(['gauge9', 'gauge10'], 'upwards');
  equal(await head.getAttribute('aria-sort'), 'ascending', 'what the head says');
  await page.keyboard.press('Enter');
  await shows(['gauge10', 'gauge9'], 'downwards');
  equal(await address(), '/models?q=gauge&sort=-name', 'the address');
  problems.push(...(await everyWidth(page, 'a sorted table')));
  await page.goBack();
  await shows(['gauge9', 'gauge10'], 'the way back');

  // Another page and back again, a reload, and the link in another tab.
  await press(page.getByRole('link', { name: 'gauge9' }), 'Enter');
  await page.getByRole('heading', { name: 'gauge9', level: 1 }).waitFor();
  await page.goBack();
  await shows(['gauge9', 'gauge10'], 'after the way back');
  equal(await page.getByRole('searchbox', { name: 'Find a model' }).inputValue(), 'gauge', 'the field after the way back');
  await page.reload();
  await shows(['gauge9', 'gauge10'], 'after a reload');
  await visitor.open('/models?kind=ensemble&sort=-name', 'Models');
  await page.getByRole('button', { name: 'Ensembles', pressed: true }).waitFor();
  const kept = await names();
  check(kept.includes('faces') && !kept.includes('gauge9'), `a link to the ensembles shows ${kept}`);
  equal(kept, kept.toSorted().reverse(), 'the order of the link');

  // A phone has no heads; it has a list of them.
  await page.setViewportSize({ width: 390, height: 844 });
  await visitor.open('/models?q=gauge', 'Models');
  await page.getByLabel('Sort by').selectOption({ label: 'Name ↑' });
  await shows(['gauge9', 'gauge10'], 'on a phone');
  problems.push(...(await inspect(page, 'a sorted table on a phone')));
  await page.setViewportSize({ width: 1280, height: 860 });

  // Versions.
  await visitor.open('/models/gauge9/versions?sort=version', 'gauge9');
  await page.getByRole('columnheader', { name: 'Digest' }).waitFor();
  equal(await page.locator('table strong.num').allTextContents(), ['1', '2', '3'], 'the versions of a link');
  await press(page.getByRole('columnheader', { name: 'Size' }).getByRole('button'), 'Enter');
  await until('the address to follow', async () => (await address()).endsWith('?sort=size'));

  // A request that was tried is one of the traces, by its number; the filter of the failed ones is in the address.
  await visitor.open('/models/gauge9/try', 'gauge9');
  await press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
  const link = page.getByRole('link', { name: /^Trace of request \d+$/ });
  const number = /\d+$/.exec(await link.textContent())[0];
  equal((await admin.call('GET', `/requests/${number}`)).model, 'gauge9', 'the model of the request');
  await press(link, 'Enter');
  await page.getByRole('heading', { name: 'Activity', level: 1 }).waitFor();
  await page.getByRole('region', { name: 'One request' }).getByText(`Request ${number}`, { exact: true }).waitFor();
  equal(await address(), `/activity/requests?model=gauge9&request=${number}`, 'the address of a trace');
  problems.push(...(await everyWidth(page, 'a trace')));
  visitor.allow(/status of 400/);

  // A request that waited says what for.
  const pushed = await admin.fetch('/api/v1/models/patient/versions?promote=true', { method: 'POST', body: tar({ 'config.pbtxt': patient, 'model.onnx': times(2) }), headers: { 'Content-Type': 'application/x-tar' } });
  check(pushed.ok, `pushing: ${await pushed.text()}`);
  await visitor.open('/models/patient/try', 'patient');
  await press(page.getByRole('button', { name: 'Run', exact: true }), 'Enter');
  await press(page.getByRole('link', { name: /^Trace of request \d+$/ }), 'Enter');
  await page.getByRole('region', { name: 'One request' }).getByText(/^3\d\d(\.\d+)? ms for more requests in the batch$/).waitFor();
  problems.push(...(await everyWidth(page, 'what a request waited for')));
  await admin.call('DELETE', '/models/patient');

  const wrong = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3] }] });
  equal((await admin.fetch('/v2/models/gauge9/infer', { method: 'POST', body: wrong, headers: { 'Content-Type': 'application/json' } })).status, 400, 'a wrong shape');
  await visitor.open('/activity/requests?model=gauge9&failed=true', 'Activity');
  check(await page.getByLabel('Only failed').isChecked(), 'the link to failed requests shows all');
  await until('the failed request alone', async () => (await page.getByRole('region', { name: 'Requests, newest first' }).getByRole('button').count()) === 1);

  // Several models at once, by keyboard: offline and back again, deleted after one question, and that undone.
  await visitor.open('/models?q=gauge', 'Models');
  await press(page.getByLabel('Select all'), 'Space');
  await page.getByText('2 selected').waitFor();
  problems.push(...(await everyWidth(page, 'selected models')));
  const wanted = async () => (await admin.call('GET', '/models')).filter((m) => /^gauge/.test(m.name) && m.wanted).length;
  await press(page.getByRole('button', { name: 'Take offline' }), 'Enter');
  await until('both to be offline', async () => (await wanted()) === 0);
  await press(page.getByRole('button', { name: 'Undo' }), 'Enter');
  await until('both to be loaded again', async () => (await wanted()) === 2);
  await press(page.getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  const dialog = page.getByRole('dialog', { name: 'Delete 2 models' });
  await dialog.getByText('gauge10').waitFor();
  problems.push(...(await inspect(page, 'the question before models are deleted')));
  await press(dialog.getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  await page.getByText('No model matches.').waitFor();
  await press(page.getByRole('button', { name: 'Undo' }), 'Enter');
  await shows(['gauge10', 'gauge9'], 'after the undo');
  await page.setViewportSize({ width: 390, height: 844 });
  problems.push(...(await inspect(page, 'a selection on a phone')));
  equal(await page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - innerWidth)), 0, 'what leaves the page to the side at 390 px');
  await page.setViewportSize({ width: 1280, height: 860 });

  // Several versions at once; one with a label stays.
  await visitor.open('/models/gauge9/versions?sort=version', 'gauge9');
  check(await page.getByLabel('Select version 3').isDisabled(), 'the live version can be selected');
  await press(page.getByLabel('Select all'), 'Space');
  await page.getByText('2 selected').waitFor();
  await press(page.getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  await press(page.getByRole('dialog', { name: 'Delete 2 versions' }).getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  await page.getByText('Deleted 2 versions.').waitFor();
  equal(await page.locator('table strong.num').allTextContents(), ['3'], 'the versions that are left');
  await until('the versions to be gone', async () => (await admin.call('GET', '/models')).find((m) => m.name === 'gauge9').versions.length === 1);

  // Models that depend on one another are deleted together: the second is gone with the first.
  visitor.allow(/status of 404 .*models\/faces\?dependants=true/);
  await visitor.open('/models', 'Models');
  for (const name of ['face', 'faces']) await press(page.getByLabel(`Select ${name}`, { exact: true }), 'Space');
  await press(page.getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  const both = page.getByRole('dialog', { name: 'Delete 2 models' });
  await both.getByText('faces', { exact: true }).waitFor();
  check(!(await both.getByLabel('Delete them too').isVisible()), 'what is selected is a dependant');
  await press(both.getByRole('button', { name: 'Delete', exact: true }), 'Enter');
  await until('the models to be gone', async () => !(await admin.call('GET', '/models')).some((m) => m.name === 'faces' || m.name === 'face'));

  // The log, the audit log and the reference keep what is looked for.
  await visitor.open('/activity/logs?q=ready&level=debug', 'Activity');
  equal(await page.getByLabel('Least severe').inputValue(), 'debug', 'the level of a link');
  await page.getByLabel('Least severe').selectOption('warn');
  await page.goBack();
  equal(await page.getByLabel('Least severe').inputValue(), 'debug', 'the level after the way back');
  await visitor.open('/activity/audit?action=version', 'Activity');
  equal(await page.getByLabel('Only', { exact: true }).inputValue(), 'version', 'the actions of a link');
  await page.getByRole('row', { name: /version\.delete gauge9/ }).first().waitFor();
  await visitor.open('/api-reference?api=v1&q=rollback', 'API');
  await page.getByRole('button', { name: /models\/\{model\}\/rollback/ }).waitFor();

  // The reference has the inference over REST and gRPC beside the administration.
  await visitor.open('/api-reference', 'API');
  await press(page.getByRole('button', { name: /POST \/v2\/models\/\{model\}\/infer / }), 'Enter');
  await page.getByRole('region', { name: 'Body of inferModel' }).getByText('inputs: [{').waitFor();
  await press(page.getByRole('link', { name: 'gRPC', exact: true }), 'Enter');
  await press(page.getByRole('button', { name: /ModelInfer / }), 'Enter');
  await page.getByRole('region', { name: 'Body of ModelInfer' }).getByText('message ModelInferRequest').waitFor();
  await page.getByRole('region', { name: 'ModelInfer with grpcurl' }).getByText(`127.0.0.1:${box.grpc}`).waitFor();
  problems.push(...(await everyWidth(page, 'the calls of gRPC')));

  // Each API has its documents to take along.
  for (const [api, files] of [['v2', ['inference.yaml']], ['grpc', ['grpc_service.proto', 'model_config.proto']], ['v1', ['openapi.yaml']]]) {
    await visitor.open(`/api-reference?api=${api}`, 'API');
    const links = await page.getByRole('main').locator('a[download]').evaluateAll((all) => all.map((a) => a.pathname));
    equal(links, files.map((f) => `/api/v1/${f}`), `the documents of ${api}`);
    for (const link of links) check((await (await admin.fetch(link)).text()).length > 1000, `${link} is empty`);
  }
  equal(problems, [], 'what axe found');
});

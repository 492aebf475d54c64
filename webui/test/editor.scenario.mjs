// The editor of ensembles: the palette, problems that lead to their place, a tidy layout, full screen, fifty steps, a step's
// parameters in the graph, a run that is stopped in the box, and an ensemble that is edited, not copied. Keyboard alone but for drags.
import { readFileSync, readdirSync } from 'node:fs';
import { check, equal, everyWidth, inspect, scenario, until } from './harness.mjs';
import { repeated, times } from './onnx.mjs';

const step = (model, input, output, more = {}) => ({ model_name: model, model_version: -1, input_map: { x: input, ...more }, output_map: { y: output } });
const rows = (name) => ({ name, data_type: 'TYPE_FP32', dims: [-1, 4] });
const config = (input, output, list) => ({ platform: 'ensemble', max_batch_size: 0, input, output, ensemble_scheduling: { step: list } });

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const push = async (name, model) => {
    const response = await admin.fetch(`/api/v1/models/${name}/versions?promote=true&file=model.onnx`, { method: 'POST', body: model, headers: { 'Content-Type': 'application/octet-stream' } });
    check(response.ok, `pushing ${name}: ${await response.clone().text()}`);
  };
  await push('gauge', times(2));
  await push('gauge_fine', times(3));
  await push('patient', repeated());
  const begin = (name, config, layout) => admin.call('POST', '/drafts', { name, config, ...(layout ? { layout } : {}) });
  const { page } = visitor;
  visitor.allow(/status of 404.*models\/gone/); // where the list of models is not there yet
  await visitor.login();
  const all = { box, admin, visitor, page, begin, problems: [] };
  for (const part of [palette, jumps, tidy, fifty, parameters, stop, edit]) {
    await part(all);
    console.log(`${part.name}: as it should be`);
  }
  equal(all.problems, [], 'what axe found');
});

const boxes = (page) => page.locator('.svelte-flow__node').evaluateAll((all) => Object.fromEntries(all.map((n) => [n.dataset.id, new DOMMatrix(getComputedStyle(n).transform)]).map(([id, m]) => [id, [Math.round(m.e), Math.round(m.f)]])));
const picked = (page) => page.locator('.svelte-flow__node.selected').evaluateAll((all) => all.map((n) => n.dataset.id));
const saved = (page) => page.getByText('Saved', { exact: true }).waitFor();
/** Types into the palette and adds what it finds first. */
async function add(page, text) {
  await page.getByRole('combobox', { name: 'Add a step' }).fill(text);
  await page.getByRole('option', { name: text }).first().waitFor();
  await page.keyboard.press('Enter');
}
const zoom = (page) => page.locator('.svelte-flow__viewport').evaluate((v) => new DOMMatrix(getComputedStyle(v).transform).a);
/** Whether an element lies within another. */
const within = (inner, outer) => inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height;

/** Typing finds models, also by a part of their name; arrows and Enter add one. */
async function palette({ visitor, page, problems }) {
  await visitor.open('/ensembles', 'Ensembles');
  await page.getByRole('button', { name: 'New ensemble' }).press('Enter');
  await page.getByLabel('Name').fill('flow');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'flow', level: 1 }).waitFor();
  const field = page.getByRole('combobox', { name: 'Add a step' });
  await field.focus();
  await page.getByRole('option', { name: 'patient' }).waitFor();
  problems.push(...(await everyWidth(page, 'the palette')));
  await field.fill('FINE');
  await until('one hit', async () => (await page.getByRole('option').count()) === 1);
  await field.fill('gauge');
  equal((await page.getByRole('option').allInnerTexts()).map((t) => t.trim()), ['gauge', 'gauge_fine'], 'what is found, the name itself first');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByLabel('Step 1: gauge_fine').waitFor();
  equal(await picked(page), ['s0'], 'the new step is selected');
  await add(page, 'gauge');
  await page.getByLabel('Step 2: gauge', { exact: true }).waitFor();
  await field.fill('no such thing');
  await page.getByText('Nothing found.').waitFor();
  await page.keyboard.press('Escape');
  await saved(page);
}

/** A problem is said in words, and leads to its place: a field of a step, or a connection; in the graph and in the list. */
async function jumps({ visitor, page, begin, problems }) {
  const list = page.getByRole('region', { name: 'Problems' });
  const first = list.getByRole('button', { name: '1. gauge_fine: Nothing is connected to its inputs.' });
  await first.press('Enter');
  const side = page.getByRole('complementary', { name: '1. gauge_fine' });
  await side.waitFor();
  equal(await picked(page), ['s0'], 'the step of the problem');
  await side.getByLabel(/^x/).selectOption('+');
  await side.getByRole('checkbox', { name: /^y/ }).press('Space');
  await until('the problem of the first step to go', async () => (await list.getByRole('button', { name: /^1\./ }).count()) === 0);
  problems.push(...(await inspect(page, 'a step beside the graph')));

  // A connection that is removed leaves no name behind that nothing reads.
  await list.getByRole('button', { name: /^2\. gauge: Nothing/ }).click();
  const other = page.getByRole('complementary', { name: '2. gauge' });
  await other.getByLabel(/^x/).selectOption({ label: 'y of 1. gauge_fine' });
  await other.getByRole('checkbox', { name: /^y/ }).press('Space');
  await page.getByText('Can be published').waitFor();
  await page.getByLabel(/^y from step 1, gauge_fine to the ensemble's output/).focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Delete');
  await until('the output to go', async () => (await page.locator('.svelte-flow__edge').count()) === 3);
  await page.getByText('Can be published').waitFor();

  const wrong = await begin('mixed', config([rows('x')], [rows('y')], [step('gauge', 'x', 't'), { ...step('patient', 'x', 'y', { m: 't' }) }, step('gone', 'x', 'z')]));
  await visitor.open(`/ensembles/${wrong.id}`, 'mixed');
  await list.getByRole('button', { name: '3. gone: There is no model “gone” on this box.' }).waitFor();
  const types = list.getByRole('button', { name: '2. patient: “t” is made as FP32 but read as INT64.' });
  equal(await page.locator('.svelte-flow__edge.wrong').count(), 1, 'connections in red');
  await types.press('Enter');
  await page.getByRole('complementary', { name: 't' }).getByText('made as FP32').waitFor();
  equal(await page.evaluate(() => document.activeElement.getAttribute('data-id')), 's0.y>s1.m', 'what has the focus');
  problems.push(...(await everyWidth(page, 'a connection with a problem')));
  await page.getByRole('button', { name: 'List' }).click();
  await types.press('Enter');
  equal(await page.evaluate(() => document.activeElement.id), 's1-m', 'what has the focus in the list');
}

/** One button puts the steps into layers from left to right; a second press moves nothing; undo takes it back. */
async function tidy({ visitor, page, begin, admin }) {
  const list = [step('gauge', 'x', 'a'), step('gauge', 'a', 'b'), step('gauge', 'a', 'c'), step('gauge', 'b', 'y'), step('gauge', 'c', 'z')];
  const places = Object.fromEntries(['in', 's0', 's1', 's2', 's3', 's4', 'out'].map((id, i) => [id, { x: 7 * i, y: 300 - 30 * i }]));
  const draft = await begin('heap', config([rows('x')], [rows('y'), rows('z')], list), { places });
  await visitor.open(`/ensembles/${draft.id}`, 'heap');
  await page.getByLabel('Step 5: gauge').waitFor();
  const heap = await boxes(page);
  const button = page.getByRole('button', { name: 'Tidy' });
  await button.press('Enter');
  const layers = [['in'], ['s0'], ['s1', 's2'], ['s3', 's4'], ['out']];
  await until('layers from left to right', async () => {
    const at = await boxes(page);
    return layers.every((layer, i) => layer.every((id) => (layers[i + 1] ?? []).every((next) => at[id][0] + 150 < at[next][0])));
  });
  const at = await boxes(page);
  for (const [a, b] of [['s1', 's2'], ['s3', 's4']]) check(Math.abs(at[a][1] - at[b][1]) > 100, `${a} and ${b} overlap: ${JSON.stringify(at)}`);
  await saved(page);
  await button.press('Enter');
  equal(await boxes(page), at, 'where the steps are after a second press');
  await page.reload();
  await page.getByLabel('Step 5: gauge').waitFor();
  equal(await boxes(page), at, 'where the steps are after a reload');

  // A step that the keyboard moves stays there, is never hidden, which would take the focus from it, and undo takes it back.
  await page.locator('[data-id=s1]').evaluate((e) => {
    window.hidden = 0;
    new MutationObserver(() => (window.hidden += e.style.visibility === 'hidden')).observe(e, { attributes: true, attributeFilter: ['style'] });
  });
  await page.locator('[data-id=s1]').focus();
  await page.keyboard.press('Enter');
  for (let i = 0; i < 3; i++) await page.keyboard.press('Shift+ArrowDown');
  equal(await page.evaluate(() => document.activeElement.getAttribute('data-id')), 's1', 'what has the focus after the moves');
  let stored;
  await until(() => `s1 of ${JSON.stringify(at)} to be stored 60 lower, not as ${JSON.stringify(stored)}`, async () => {
    stored = (await admin.call('GET', `/drafts/${draft.id}`)).layout;
    return stored.places?.s1?.y === at.s1[1] + 60;
  });
  for (let i = 0; i < 3; i++) await page.getByRole('button', { name: 'Undo' }).press('Enter');
  equal(await boxes(page), at, 'where the steps are after undo');
  equal(await page.evaluate(() => window.hidden), 0, 'how often the step was hidden');
  await page.getByLabel('Step 2: gauge').hover();
  check(JSON.stringify(heap) !== JSON.stringify(at), 'the heap was tidy');
}

/** Fifty steps: readable at first, the whole with one key, any of them found; nothing is asked for each model. */
async function fifty({ visitor, page, begin, problems }) {
  const list = [];
  for (let lane = 0; lane < 5; lane++) for (let i = 0; i < 10; i++) list.push(step(i % 2 ? 'gauge' : 'gauge_fine', i ? `t${lane}_${i - 1}` : 'x', i < 9 ? `t${lane}_${i}` : `y${lane}`));
  const draft = await begin('long', config([rows('x')], [0, 1, 2, 3, 4].map((lane) => rows(`y${lane}`)), list));
  const asked = [];
  page.on('request', (r) => { if (/api\/v1\/models\/gauge/.test(r.url())) asked.push(r.url()); });
  await visitor.open(`/ensembles/${draft.id}`, 'long');
  const board = page.getByRole('group', { name: /^The graph/ });
  const first = page.getByLabel('Step 1: gauge_fine');
  await first.waitFor();
  await page.getByText('Can be published').waitFor();
  equal(asked, [], 'requests for signatures that the validation has');
  check((await zoom(page)) >= 0.8, `the names are drawn at ${await zoom(page)} of their size`);
  check(within(await page.locator('[data-id=in]').boundingBox(), await board.boundingBox()), 'the inputs are not in view');
  await page.getByLabel('Map of the graph').waitFor();
  problems.push(...(await inspect(page, 'fifty steps')));

  await board.focus();
  await page.keyboard.press('0');
  await until('all steps to be in view', async () => {
    const frame = await board.boundingBox();
    const nodes = await page.locator('.svelte-flow__node').evaluateAll((all) => all.map((n) => n.getBoundingClientRect().toJSON()));
    return nodes.length === 52 && nodes.every((n) => within(n, frame));
  });
  const far = await zoom(page);
  const size = await page.getByLabel('Step 1: gauge_fine').locator('strong').evaluate((e) => parseFloat(getComputedStyle(e).fontSize));
  check(size * far >= 9, `from afar a name is ${size * far} px high`);
  problems.push(...(await inspect(page, 'fifty steps from afar')));
  await page.keyboard.press('+');
  await until('it to come nearer', async () => (await zoom(page)) > far);
  await page.keyboard.press('-');
  const left = async () => (await page.locator('[data-id=in]').boundingBox()).x;
  const before = await left();
  await page.keyboard.press('ArrowRight');
  await until('the view to move', async () => (await left()) < before - 40);

  await add(page, '37. gauge');
  await until('step 37 to be selected', async () => (await picked(page)).join() === 's36');
  await until('step 37 to be in view', async () => within(await page.locator('[data-id=s36]').boundingBox(), await board.boundingBox()));
  check((await zoom(page)) >= 0.8, 'what was found cannot be read');

  for (const [width, height] of [[1440, 900], [1280, 860]]) {
    await page.setViewportSize({ width, height });
    await page.getByRole('button', { name: 'Full screen' }).press('Enter');
    await until('the graph to fill the screen', async () => { const b = await board.boundingBox(); return b.height > height - 60 && b.width > width - 420; });
    if (width === 1440) problems.push(...(await inspect(page, 'the full screen')));
    await page.getByRole('button', { name: 'Leave full screen' }).press('Enter');
    await until('the page to come back', async () => (await board.boundingBox()).height < 640);
  }
  await page.setViewportSize({ width: 390, height: 860 });
  check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the graph leaves a phone to the side');
  problems.push(...(await inspect(page, 'the graph on a phone')));
  await page.setViewportSize({ width: 1280, height: 860 });
}

/** A step of the gallery comes from the palette, and its parameters are a form in the graph. */
async function parameters({ visitor, page, begin, problems }) {
  const draft = await begin('scores', config([], [], []));
  await visitor.open(`/ensembles/${draft.id}`, 'scores');
  await add(page, 'detector');
  const form = page.getByRole('form', { name: 'Parameters of detector' });
  await form.getByLabel('score', { exact: true }).fill('0.85');
  problems.push(...(await everyWidth(page, 'parameters in the graph')));
  await form.getByRole('button', { name: 'Save the parameters' }).press('Enter');
  await page.getByText('detector version 2 is live.').waitFor();
}

/** The processor time of the box and of the processes of its models, in hundredths of a second. */
function spent(box) {
  const read = (id) => { try { return readFileSync(`/proc/${id}/stat`, 'utf8').replace(/^.*\) /, '').split(' ').map(Number); } catch { return []; } };
  return readdirSync('/proc').filter((id) => /^\d+$/.test(id)).reduce((sum, id) => { const f = read(id); return Number(id) === box.process.pid || f[1] === box.process.pid ? sum + f[11] + f[12] : sum; }, 0);
}

/** A run is stopped in the box, too, which else would run it for a minute. */
async function stop({ box, visitor, page, begin, problems }) {
  const draft = await begin('slow', config([{ name: 'm', data_type: 'TYPE_INT64', dims: [1] }, rows('x')], [rows('y')], [step('patient', 'x', 'y', { m: 'm' })]));
  await visitor.open(`/ensembles/${draft.id}`, 'slow');
  await page.getByRole('textbox', { name: 'm', exact: true }).fill('100000000000');
  await page.getByRole('textbox', { name: 'x', exact: true }).fill('[[1, 2, 3, 4]]');
  await page.getByRole('button', { name: 'Run the draft' }).press('Enter');
  await page.getByRole('button', { name: 'Running …' }).waitFor();
  problems.push(...(await inspect(page, 'a run')));
  const idle = spent(box);
  await until('the box to work at it', () => spent(box) > idle + 50);
  await page.getByRole('button', { name: 'Stop' }).press('Enter');
  await page.getByText('Stopped. The box ends the run.').waitFor();
  await until('the box to end it', async () => { const before = spent(box); await page.waitForTimeout(2000); return spent(box) < before + 10; }, 45_000);
}

/** Editing an ensemble makes its next version, in one draft however often it is begun. */
async function edit({ admin, visitor, page, problems }) {
  const flow = (await admin.call('GET', '/drafts')).find((d) => d.name === 'flow');
  await visitor.open(`/ensembles/${flow.id}`, 'flow');
  const publish = async () => {
    await page.getByRole('button', { name: 'Publish' }).press('Enter');
    await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).press('Enter');
    await page.waitForURL('**/models/flow/try');
  };
  await publish();
  const drafts = async () => (await admin.call('GET', '/drafts')).filter((d) => d.name === 'flow').length;
  equal(await drafts(), 0, 'drafts after publishing');
  const card = page.getByRole('article').filter({ has: page.getByRole('heading', { name: 'flow' }) });
  for (const button of ['Edit', 'Continue editing']) {
    await visitor.open('/ensembles', 'Ensembles');
    await card.getByRole('button', { name: button }).press('Enter');
    await page.getByLabel('Step 1: gauge_fine').waitFor();
    equal(await drafts(), 1, 'drafts of the ensemble');
  }
  await visitor.open('/models/flow', 'flow');
  await page.getByRole('button', { name: 'More about flow' }).click();
  await page.getByRole('menuitem', { name: 'Edit the ensemble' }).click();
  await page.getByLabel('Step 1: gauge_fine').waitFor();
  await visitor.open('/ensembles', 'Ensembles');
  await page.getByRole('button', { name: 'New ensemble' }).click();
  await page.getByLabel('Name').fill('flow');
  await page.getByText('There is an ensemble flow').waitFor();
  problems.push(...(await inspect(page, 'a name that is taken')));
  await page.getByRole('dialog').getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Step 1: gauge_fine').waitFor();
  equal(await drafts(), 1, 'drafts of the ensemble');

  // Somebody stores a version meanwhile: the draft says so.
  const { config } = (await admin.call('GET', '/ensembles')).find((e) => e.name === 'flow');
  const other = await admin.call('POST', '/drafts', { name: 'flow', config: { ...config, max_batch_size: 0, response_cache: { enable: true } }, base: 1 });
  await admin.call('POST', `/drafts/${other.id}/publish`, {});
  await page.getByText('Version 2 was stored since: this draft began from version 1').waitFor();
  await add(page, 'gauge');
  await page.getByRole('complementary', { name: '3. gauge' }).getByLabel(/^x/).selectOption({ label: 'input x' });
  await page.getByRole('complementary', { name: '3. gauge' }).getByRole('checkbox', { name: /^y/ }).press('Space');
  await page.getByText('Can be published').waitFor();
  await publish();
  equal((await admin.call('GET', '/models/flow')).versions.map((v) => v.version), [1, 2, 3], 'versions of the ensemble');
}

// From a model that the box has never seen to an answer that a person reads: dropped, recognised, put between steps of the gallery,
// published, asked. Nothing is typed but the model's name, and clicks are counted.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { check, drop, equal, everyWidth, press, scenario, type, until } from './harness.mjs';
import { colours, masks, pose, yolo } from './onnx.mjs';
import { png } from './picture.mjs';

export default () => scenario({}, async (box, visitor) => {
  await box.claim();
  const { page } = visitor;
  const folder = mkdtempSync(join(tmpdir(), 'edgewise-recognise-'));
  const file = (name, body) => { writeFileSync(join(folder, name), body); return join(folder, name); };
  const red = file('red.png', png(96, 64, [250, 10, 10]));
  const problems = [];
  await visitor.login();

  let clicks = 0;
  let keyboard = false;
  const click = async (locator) => { await (keyboard ? press(locator, 'Enter') : locator.click()); clicks++; };
  /** From a dropped model to the answer of its pipeline. */
  async function ask(model, name, task) {
    clicks = 0;
    await visitor.open('/', 'Home');
    await click(page.getByRole('navigation').getByRole('link', { name: 'Models' }).first());
    await page.getByRole('heading', { name: 'Models', level: 1 }).waitFor();
    await drop(page, page.getByRole('main'), [model]);
    const job = page.getByRole('article', { name: `Job of ${basename(model)}` });
    await job.getByText(task).waitFor();
    await type(job.getByLabel('Name'), name);
    await click(job.getByRole('button', { name: 'Activate' }));
    await click(job.getByRole('button', { name: 'Create this ensemble' }));
    await page.getByRole('heading', { name: `${name}_pipeline`, level: 1 }).waitFor();
    await page.getByText('Can be published').waitFor();
    equal(await page.getByRole('region', { name: 'Problems' }).count(), 0, 'problems of the draft');
    if (!keyboard) problems.push(...(await everyWidth(page, `the draft of ${name}`))); // one looks like the others
    await click(page.getByRole('button', { name: 'Publish' }));
    await click(page.getByRole('dialog').getByRole('button', { name: 'Publish' }));
    await page.waitForURL('**/try'); // the draft has the same heading
    await page.getByRole('form', { name: 'The request' }).waitFor();
    await drop(page, page.locator('.drop'), [red]);
    await page.getByText('red.png', { exact: true }).waitFor();
    await click(page.getByRole('button', { name: 'Run', exact: true }));
  }

  // A classifier of four classes: four numbers, which are never drawn as a box.
  await ask(file('colours.onnx', colours()), 'paint', 'It looks like image classification.');
  const bars = page.getByRole('region', { name: 'Output probability' });
  await bars.waitFor();
  equal(await bars.getAttribute('data-view'), 'ranked', 'how the classes are drawn');
  check(/^red\s*\d/.test(await bars.getByRole('listitem').first().innerText()), `the likeliest class is ${await bars.getByRole('listitem').first().innerText()}`);
  equal(await page.locator('[data-boxes]').count(), 0, 'boxes drawn for a classifier');
  check(clicks <= 8, `the answer of a classifier took ${clicks} clicks`);
  console.log(`a classifier: ${clicks} clicks`);
  problems.push(...(await everyWidth(page, 'classes with labels')));

  // The model alone has its labels, too.
  await visitor.open('/models/paint/try', 'paint');
  await drop(page, page.locator('.drop'), [red]);
  await page.getByText('red.png', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  const own = page.getByRole('region', { name: 'Output scores' });
  await own.waitFor();
  equal(await own.getAttribute('data-view'), 'classes', 'how the scores of a classifier are drawn');
  check((await own.getByRole('listitem').first().innerText()).startsWith('red'), 'the scores have no labels');

  // An export of YOLO, without a mouse but for the drops: boxes with labels, at their places in the picture.
  keyboard = true;
  await ask(file('cats.onnx', yolo()), 'cats', 'It looks like object detection, YOLO v8.');
  const drawn = page.getByRole('region', { name: 'Output box' });
  await drawn.waitFor();
  equal(await drawn.getAttribute('data-view'), 'boxes', 'how the boxes are drawn');
  equal(await drawn.locator('[data-boxes]').getAttribute('data-boxes'), '2', 'boxes, those that overlap a surer one left out');
  const places = await drawn.locator('polygon').evaluateAll((all) => all.map((p) => p.getAttribute('points').split(/[ ,]/).map((v) => Math.round(Number(v)))));
  // The picture of 96 x 64 is 64 x 43 in the model, 10 pixels from above.
  equal(places[0].slice(0, 2).concat(places[0].slice(4, 6)), [24, 21, 72, 45], 'the place of the first box');
  const list = await drawn.getByRole('listitem').allInnerTexts();
  check(/cat/.test(list[0]) && /0\.900/.test(list[0]) && /dog/.test(list[1]), `the boxes are called ${list.join('; ')}`);
  check(clicks <= 10, `boxes took ${clicks} clicks`);
  console.log(`a YOLO export: ${clicks} clicks`);
  problems.push(...(await everyWidth(page, 'boxes with labels')));

  // Masks are laid over the picture: this one over the left half of its box.
  await ask(file('shapes.onnx', masks()), 'shapes', 'It looks like instance segmentation, YOLO v8.');
  await drawn.locator('[data-masks="1"]').waitFor();
  const laid = () => drawn.locator('canvas').evaluate((c) => { const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; return [0.4, 0.6].map((x) => p[4 * (Math.floor(c.height / 2) * c.width + Math.floor(c.width * x)) + 3] > 0); });
  await until('the mask over the left half of the box', async () => JSON.stringify(await laid()) === '[true,false]');

  // A pose: the one key point that it is sure of, on the picture.
  await ask(file('hands.onnx', pose()), 'hands', 'It looks like pose estimation, YOLO v8.');
  await drawn.locator('[data-points="1"]').waitFor();
  equal(await drawn.locator('circle').evaluate((c) => ['cx', 'cy'].map((name) => Math.round(c.getAttribute(name)))), [36, 33], 'the place of the key point');

  // The parameters of a step as a form: a threshold as a slider, labels as lines. Saving makes the next version.
  await visitor.open('/models/cats_detector/parameters', 'cats_detector');
  const form = page.getByRole('form', { name: 'Parameters of cats_detector' });
  equal(await form.getByLabel('labels', { exact: true }).inputValue(), 'cat\ndog', 'the labels of the step');
  await form.getByLabel('score', { exact: true }).fill('0.85');
  problems.push(...(await everyWidth(page, 'the parameters of a step')));
  await press(form.getByRole('button', { name: 'Save the parameters' }), 'Enter');
  await page.getByText('cats_detector version 2 is live.').waitFor();
  equal(problems, [], 'what axe found');
  rmSync(folder, { recursive: true });
});

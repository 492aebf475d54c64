// The graph of a large model: a thousand operations in groups that open and close, by keyboard too; what is looked for comes into the
// middle, large enough to be read.
import { check, equal, everyWidth, inspect, press, scenario, until } from './harness.mjs';
import { chain } from './onnx.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  for (const [name, named] of [['deep', true], ['nameless', false]]) {
    const pushed = await admin.fetch(`/api/v1/models/${name}/versions?promote=true&file=model.onnx`, { method: 'POST', body: chain(1000, named), headers: { 'Content-Type': 'application/octet-stream' } });
    check(pushed.ok, `pushing: ${await pushed.text()}`);
  }
  await visitor.login();
  const problems = [];
  const aside = page.getByRole('complementary', { name: 'The selected operation' });
  const group = (name) => aside.getByRole('button', { name: new RegExp(`^${name} `) });
  const drawn = () => page.locator('.svelte-flow__node').count();
  /** Waits until an element of the drawing stands inside the canvas and its text can be read. */
  const readable = (text) => until(`${text} in the middle`, () => page.evaluate((text) => {
    const canvas = document.querySelector('.canvas').getBoundingClientRect();
    return [...document.querySelectorAll('.op')].some((e) => {
      const r = e.getBoundingClientRect();
      return e.textContent.includes(text) && r.left >= canvas.left && r.right <= canvas.right && r.top >= canvas.top && r.bottom <= canvas.bottom && r.height >= 36;
    });
  }, text));

  // Stages first; a stage opens into its blocks, a block into its operations, and closing it closes what is inside.
  await visitor.open('/models/deep/graph', 'deep');
  await page.getByText('1,000 operations, grouped by their names').waitFor();
  await readable('stage0');
  check((await drawn()) < 20, `${await drawn()} nodes are drawn`);
  problems.push(...(await inspect(page, 'a large graph')));
  await press(group('stage3'), 'Enter');
  await readable('stage3/block0');
  await press(group('stage3/block0'), 'Enter');
  await readable('add600');
  equal(await group('stage3').getAttribute('aria-expanded'), 'true', 'the stage is opened');
  await press(group('stage3'), 'Enter');
  await readable('stage3');
  equal(await group('stage3/block0').count(), 0, 'blocks of a closed stage');

  // An operation is found by its name or its tensors, with all that it is in; a link keeps what is looked for.
  const field = page.getByRole('searchbox', { name: 'Find an operation or a tensor' });
  await field.fill('add777');
  const hit = aside.getByRole('button', { name: /add777/ });
  await press(hit, 'Enter');
  await readable('add777');
  await aside.getByText('/stage3/block17/add777').waitFor();
  problems.push(...(await everyWidth(page, 'an operation that was found')));
  await press(aside.getByRole('button', { name: 'Back to the hits' }), 'Enter');
  await hit.waitFor();
  equal(await page.evaluate(() => location.search), '?q=add777', 'the address');
  await field.fill('');
  await press(page.getByRole('button', { name: 'Close all groups' }), 'Enter');
  await until('all groups to be closed', async () => (await drawn()) < 20);

  // The whole of it, and back to where it can be read.
  await press(page.getByRole('button', { name: /fit view/i }), 'Enter');
  await until('the whole graph', () => page.evaluate(() => { const c = document.querySelector('.canvas').getBoundingClientRect(); return [...document.querySelectorAll('.op')].every((e) => e.getBoundingClientRect().bottom <= c.bottom + 1); }));
  await press(page.getByRole('button', { name: /zoom in/i }), 'Enter');

  // Without names there are runs of neighbours.
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 860 });
    await visitor.open('/models/nameless/graph?q=t501', 'nameless');
    await press(aside.getByRole('button').first(), 'Enter');
    await aside.getByText('t501', { exact: false }).first().waitFor();
    await readable('Add');
    check((await drawn()) < 200, `${await drawn()} nodes are drawn at ${width} px`);
    equal(await page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - innerWidth)), 0, `what leaves the page to the side at ${width} px`);
  }
  problems.push(...(await everyWidth(page, 'a large graph without names')));
  equal(problems, [], 'what axe found');
});

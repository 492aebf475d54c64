// A rollout: a version that goes live by stages, begun in the page; its stages, its evidence and what has happened; promoted,
// rolled back, and begun again and stopped, by keyboard.
import { check, equal, scenario, until } from './harness.mjs';
import { times } from './onnx.mjs';
import { round } from './round.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  for (const [factor, promote] of [[2, true], [3, false]]) {
    const pushed = await admin.fetch(`/api/v1/models/gauge/versions?promote=${promote}&file=model.onnx`, { method: 'POST', body: times(factor), headers: { 'Content-Type': 'application/octet-stream' } });
    check(pushed.ok, `pushing: ${await pushed.clone().text()}`);
  }
  const live = async () => (await admin.call('GET', '/models/gauge')).labels.find((l) => l.name === 'live').version;
  const card = page.getByRole('region', { name: 'Rollout of version 2 in place of 1' });
  const begin = async () => {
    await page.getByRole('button', { name: 'More about version 2' }).focus();
    await page.keyboard.press('Enter');
    await page.locator('[role=menuitem]:focus').waitFor();
    await page.getByRole('menuitem', { name: 'Go live by stages' }).focus();
    await page.keyboard.press('Enter');
    await card.getByText('in progress').waitFor();
  };
  const press = async (name) => {
    await card.getByRole('button', { name }).focus();
    await page.keyboard.press('Enter');
  };
  await visitor.login();
  await visitor.open('/models/gauge/versions', 'gauge');
  await begin();
  equal(await card.getByRole('list', { name: 'Stages' }).getByRole('listitem').allTextContents(), ['5%', '25%', '50%', 'live'], 'the stages');
  await card.getByText('stage 1 of 3: 5 % of the requests').waitFor();
  equal(await round(visitor, [['/models/gauge/versions', 'gauge']]), [], 'what axe and the phone found');
  await press('Promote now');
  await card.getByText('live and watched').waitFor();
  equal(await live(), 2, 'the live version');
  await press('Roll back');
  await card.getByText('rolled back', { exact: true }).waitFor();
  equal(await live(), 1, 'the live version');
  await begin();
  await press('Stop');
  await card.getByText('stopped', { exact: true }).waitFor();
  await until('the buttons to go', async () => (await card.getByRole('button').count()) === 0);
});

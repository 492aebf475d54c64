// The set-up as a state machine on the box: a guesser is slowed down, and every reload lands on the step that is next.
import { Visitor, check, equal, judge, password, scenario, until } from './harness.mjs';

export default () => scenario({}, async (box, visitor) => {
  const { page } = visitor;
  visitor.allow(/status of (401|403|409|429)/);
  await page.goto(box.url + '/settings/users'); // every address leads to the set-up until it is done
  await page.getByRole('heading', { name: 'Set up this box' }).waitFor();
  const problems = await judge(page, 'claim');
  for (let i = 0; i < 9; i++) {
    const wrong = await fetch(box.url + '/api/v1/setup/claim', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ code: 'AAAA-BBBB-CCCC-DDD' + i, user: 'eve', password }) });
    equal(wrong.status, 401, `wrong code ${i + 1}`);
  }
  const claim = async (code) => {
    await page.getByLabel('Claim code').fill(code);
    await page.getByRole('button', { name: 'Claim this box' }).click();
    await page.getByRole('button', { name: 'Claim this box' }).or(page.getByLabel('Name of this box')).and(page.locator(':enabled')).waitFor();
  };
  await page.getByLabel('Your name on this box').fill('anna');
  await page.getByLabel('Password', { exact: true }).fill('short');
  await page.getByText('7 more characters.').waitFor();
  await page.getByLabel('Password', { exact: true }).fill(password);
  await claim('AAAA-BBBB-CCCC-DDDX');
  await page.getByRole('alert').waitFor();
  await claim(box.code);
  await page.getByRole('alert').getByText(/try again in \d+ s/).first().waitFor();
  problems.push(...(await judge(page, 'claim, paused')));
  await until('the pause to be over', async () => {
    await page.waitForTimeout(4000);
    await claim(box.code);
    return page.getByLabel('Name of this box').isVisible();
  });

  // Each step stays done, here and elsewhere.
  const step = async (ready) => {
    await ready.waitFor();
    problems.push(...(await judge(page, await ready.innerText().catch(() => 'a step'))));
    await page.reload();
    await ready.waitFor();
  };
  await step(page.getByLabel('Name of this box'));
  await page.getByLabel('Name of this box').fill('Dock 4');
  await page.getByRole('button', { name: 'Continue' }).click();
  await step(page.getByRole('heading', { name: /connection is/ }));
  const other = await Visitor.start(box, { browser: visitor.browser, context: { storageState: await visitor.context.storageState() } });
  await other.page.goto(box.url);
  await other.page.getByRole('heading', { name: /connection is/ }).waitFor();
  await other.page.getByRole('button', { name: 'Continue' }).click();
  await other.page.getByRole('heading', { name: 'Your first model' }).waitFor();
  await other.stop();
  await page.getByRole('button', { name: 'Continue' }).click(); // done already: it is no mistake to do it again
  await step(page.getByRole('heading', { name: 'Your first model' }));
  await page.getByRole('button', { name: 'Later' }).click();
  await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  await page.getByText('Ready for its first model').waitFor();
  for (const [path, heading] of [['/models', 'Models'], ['/ensembles', 'Ensembles'], ['/steps', 'Steps'], ['/activity/requests', 'Activity'], ['/settings/keys', 'Settings']]) {
    await visitor.open(path, heading);
    await page.waitForTimeout(300);
    problems.push(...(await judge(page, `${path} of an empty box`)));
  }
  equal(problems, [], 'what axe found');
  const again = await fetch(box.url + '/api/v1/setup/claim', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ code: box.code, user: 'eve', password }) });
  check(again.status === 409, `a second claim was answered ${again.status}`);
});

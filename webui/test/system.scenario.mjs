// Settings, System: what the page says of updates where there are none, and a safe start: the banner, switching the model off, loading the others.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { away, check, equal, judge, scenario, until } from './harness.mjs';

export default () => scenario({ imports: ['dist/demo/models'] }, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  visitor.allow(away);
  visitor.allow(/status of (401|409|502|503)/);
  await visitor.login();
  await visitor.open('/settings/system', 'Settings');
  await page.getByText('This box is not updated by its page.').waitFor();
  await page.getByText('Stop the program and remove its data folder.').waitFor();
  equal(await page.getByRole('button', { name: 'Choose an update' }).count(), 0, 'buttons that cannot do anything');
  const problems = await judge(page, 'system');

  // Two starts that did not end well, as a model that ends the program leaves them behind.
  await box.kill();
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  writeFileSync(join(box.data, 'starts.json'), JSON.stringify({ total: 2, in_boot: 2, boot, since: new Date().toISOString(), loading: ['vad:1'], safe: false }));
  await box.run();
  await page.goto(box.url + '/models');
  await page.getByText('The last one ended while vad:1 was being loaded.').first().waitFor();
  await visitor.open('/settings/system', 'Settings');
  await page.getByRole('heading', { name: 'Safe start' }).waitFor();
  problems.push(...(await judge(page, 'safe start')));
  const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'vad', exact: true }) });
  await row.getByText('was being loaded').waitFor();
  await row.getByRole('button', { name: 'Take offline' }).click();
  await row.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Load the models again' }).click();
  await page.getByRole('heading', { name: 'Safe start' }).waitFor({ state: 'detached' });
  await until('the other models to be ready', async () => {
    const models = await admin.call('GET', '/models');
    const state = (name) => models.find((m) => m.name === name)?.versions.at(-1)?.state;
    check(state('vad') !== 'READY', 'what was disabled is loaded');
    return models.some((m) => m.name !== 'vad' && state(m.name) === 'READY');
  });
  equal(problems, [], 'what axe found');
});

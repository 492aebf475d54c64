// Who may do what: roles in the page and in the API, keys, a session that ends in the middle, another site's form.
import { createServer } from 'node:http';
import { Client, Visitor, check, equal, inspect, password, scenario, until } from './harness.mjs';

export default () => scenario({ imports: ['dist/demo/models'] }, async (box, visitor) => {
  const admin = await box.claim();
  visitor.allow(/status of (401|403|429)/);
  const { page } = visitor;
  await admin.call('POST', '/users', { name: 'vera', role: 'viewer', password });

  // A viewer sees no way to change things, and the box would not let them.
  const viewer = await Visitor.start(box, { browser: visitor.browser });
  await viewer.login('vera');
  await viewer.open('/models', 'Models');
  await viewer.page.getByRole('link', { name: 'vad', exact: true }).waitFor();
  equal(await viewer.page.getByRole('button', { name: 'Add a model' }).count(), 0, 'buttons of an operator');
  await viewer.open('/settings/users', 'Settings');
  await viewer.page.getByText('Your role does not include').waitFor();
  await viewer.stop();
  await new Promise((r) => setTimeout(r, 1100)); // one login a second
  const vera = await new Client(box.url).login('vera');
  for (const [method, path] of [['DELETE', '/models/vad'], ['GET', '/users'], ['POST', '/drafts'], ['GET', '/logs'], ['PATCH', '/settings']]) {
    const response = await vera.fetch('/api/v1' + path, { method, ...(method === 'GET' ? {} : { body: '{}', headers: { 'Content-Type': 'application/json' } }) });
    equal(response.status, 403, `a viewer's ${method} ${path}`);
  }

  // An operator changes models, and nobody's rights.
  await admin.call('POST', '/users', { name: 'olaf', role: 'operator', password });
  await new Promise((r) => setTimeout(r, 1100));
  const operator = await Visitor.start(box, { browser: visitor.browser });
  operator.allow(/status of 429/); // pages that follow one another so fast leave streams behind them
  await operator.login('olaf');
  await operator.open('/models', 'Models');
  await operator.page.getByRole('button', { name: 'Add a model' }).waitFor();
  await operator.open('/activity/logs', 'Activity');
  await operator.page.getByRole('log').waitFor();
  equal(await operator.page.getByRole('link', { name: 'Audit' }).count(), 0, 'the audit log for an operator');
  await operator.open('/settings/general', 'Settings');
  await operator.page.getByText('An admin can change these.').waitFor();
  for (const part of ['keys', 'users', 'backup', 'configuration']) {
    await operator.open(`/settings/${part}`, 'Settings');
    await operator.page.getByText('Your role does not include').waitFor();
  }
  const olaf = new Client(box.url);
  [olaf.cookie] = (await operator.context.cookies()).map((c) => `${c.name}=${c.value}`);
  olaf.csrf = (await (await olaf.fetch('/api/v1/session')).json()).csrf;
  for (const [method, path, want] of [['PATCH', '/models/vad', 200], ['POST', '/drafts', 400], ['GET', '/logs', 200], ['GET', '/keys', 403], ['POST', '/users', 403], ['PATCH', '/settings', 403], ['GET', '/backup', 403], ['GET', '/configuration', 403], ['PUT', '/tls', 403]]) {
    const response = await olaf.fetch('/api/v1' + path, { method, ...(method === 'GET' ? {} : { body: '{}', headers: { 'Content-Type': 'application/json' } }) });
    equal(response.status, want, `an operator's ${method} ${path}`);
  }
  await operator.stop();

  // A key is shown once, works where it may, and stops when it is revoked.
  await new Promise((r) => setTimeout(r, 1100));
  await visitor.login();
  await visitor.open('/settings/keys', 'Settings');
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.getByLabel('Name').fill('camera');
  await page.getByLabel('Only these models').fill('vad');
  const problems = await inspect(page, 'a new key');
  await page.getByRole('button', { name: 'Create the key' }).click();
  const secret = (await page.getByRole('region', { name: 'The key' }).innerText()).trim();
  check(secret.startsWith('ek_'), `the key is ${secret}`);
  problems.push(...(await inspect(page, 'the key, once')));
  for (let i = 0; i < 3; i++) await page.keyboard.press('Escape'); // a key that is shown once is not closed by chance
  equal((await page.getByRole('region', { name: 'The key' }).innerText()).trim(), secret, 'the key after Escape');
  await page.getByRole('button', { name: 'Done' }).click();
  check(!(await page.content()).includes(secret), 'the key is still in the page');
  const ask = (path) => fetch(box.url + path, { headers: { Authorization: `Bearer ${secret}` } }).then((r) => r.status);
  equal([await ask('/v2/models/vad'), await ask('/v2/models/face'), await ask('/api/v1/users')], [200, 403, 403], 'what the key may do');
  await page.getByRole('button', { name: 'More about the key camera' }).click();
  await page.getByRole('menuitem', { name: 'Revoke' }).click();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('button', { name: 'More about the key camera' }).click();
  await page.getByRole('menuitem', { name: 'Revoke' }).click();
  // Who leaves the page at once has revoked it all the same.
  await visitor.open('/settings/users', 'Settings');
  await until('the key is revoked', async () => (await ask('/v2/models/vad')) === 401);

  // A session ends while somebody types: they log in over the page, and what they typed is sent.
  await visitor.open('/settings/general', 'Settings');
  await page.getByRole('heading', { name: 'This box' }).waitFor();
  const name = page.getByRole('textbox', { name: 'Name' });
  await name.fill('Dock 7');
  for (const s of await admin.call('GET', '/sessions')) if (!s.current && s.user === 'anna') await admin.call('DELETE', `/sessions/${s.id}`);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
  problems.push(...(await inspect(page, 'a session that has ended')));
  await page.getByLabel('Password of anna').fill(password);
  await page.getByRole('dialog').getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Saved.').waitFor();
  equal(await name.inputValue(), 'Dock 7', 'what was typed');
  equal((await admin.call('GET', '/settings')).name, 'Dock 7', 'the name of the box');

  // A form of another site changes nothing, though the browser is logged in.
  const other = createServer((_, response) => { response.setHeader('Content-Type', 'text/html'); response.end(`<form method="post" enctype="text/plain" action="${box.url}/api/v1/models/vad/rollback"><input name='{"label":"live","x":"' value='"}'></form><script>document.forms[0].submit()</script>`); });
  await new Promise((r) => other.listen(0, '127.0.0.1', r));
  const tab = await visitor.context.browser().newContext({ storageState: await visitor.context.storageState() });
  const stranger = await tab.newPage();
  const [response] = await Promise.all([stranger.waitForResponse((r) => r.url().startsWith(box.url)), stranger.goto(`http://localhost:${other.address().port}/`).catch(() => {})]);
  equal(response.status(), 403, "the answer to another site's form");
  await tab.close();
  other.close();
  equal(problems, [], 'what axe found');
});

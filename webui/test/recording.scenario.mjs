// Recording: started by keyboard with a mask, requests appear without what is masked; one that is not masked becomes a golden; one is
// deleted, then all. An operator sees no way to them.
import { Visitor, check, equal, password, press, scenario, until } from './harness.mjs';
import { times } from './onnx.mjs';
import { round } from './round.mjs';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  visitor.allow(/status of 400/); // a golden of a masked request
  const upload = await admin.fetch('/api/v1/models/cat/versions?promote=true', { method: 'POST', body: times(2), headers: { 'Content-Type': 'application/octet-stream' } });
  check(upload.ok, await upload.text());
  const recorded = async (n) => {
    const response = await admin.fetch('/v2/models/cat/infer', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] }) });
    check(response.ok, await response.text());
    await until(`${n} requests to be recorded`, async () => (await admin.call('GET', '/models/cat/recording')).requests === n);
  };

  await visitor.login();
  await visitor.open('/models/cat/recording', 'cat');
  const mask = page.getByRole('combobox', { name: 'x', exact: true });
  await page.getByLabel('Room on the disk').fill('5');
  await mask.selectOption('hash');
  await page.getByLabel('Share of the requests').fill('100');
  await page.getByLabel('Share of the requests').press('Enter');
  await page.getByText('100% of the requests').waitFor();
  await recorded(1);
  const file = await (await admin.fetch('/api/v1/models/cat/recording/requests/1')).text();
  check(file.includes('"name":"x"') && file.includes('"BYTES"'), `the recorded request is ${file.slice(0, 500)}`);
  await visitor.open('/models/cat/recording', 'cat');
  equal(await mask.inputValue(), 'hash', 'the mask after a reload');
  await page.getByRole('button', { name: 'Keep as golden: request 1' }).click();
  await page.getByText('The recording has masked').first().waitFor();

  await mask.selectOption('');
  await press(page.getByRole('button', { name: 'Save', exact: true }), 'Enter');
  await until('the mask to go', async () => (await admin.call('GET', '/models/cat/recording')).settings.masks.length === 0);
  await recorded(2);
  await press(page.getByRole('button', { name: 'Keep as golden: request 2' }), 'Enter');
  await page.getByText('The golden recorded 2 is kept.').waitFor();
  equal((await admin.call('GET', '/models/cat/goldens')).goldens.map((g) => g.name), ['recorded 2'], 'goldens');
  equal(await round(visitor, [['/models/cat/recording', 'cat']]), [], 'what axe and the phone found');

  await page.getByRole('button', { name: 'Delete request 2' }).click();
  await page.getByText('Kept: 1').waitFor();
  for (let i = 0; i < 50; i++) await recorded(2 + i);
  await press(page.getByRole('button', { name: 'Show older ones' }), 'Enter');
  await page.getByRole('button', { name: 'Delete request 1', exact: true }).waitFor();
  await until('the last of all to be shown', async () => (await page.getByRole('button', { name: 'Show older ones' }).count()) === 0);
  await page.getByRole('button', { name: 'Stop recording' }).click();
  await page.getByText('Off', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Delete all' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete all' }).click();
  await page.getByText('Kept: 0').waitFor();
  equal((await admin.call('GET', '/recordings')).length, 0, 'recordings that are left');

  await admin.call('POST', '/users', { name: 'olaf', role: 'operator', password });
  const operator = await Visitor.start(box, { browser: visitor.browser });
  await operator.login('olaf');
  await operator.open('/models/cat', 'cat');
  await operator.page.getByRole('link', { name: 'Versions' }).waitFor();
  equal(await operator.page.getByRole('link', { name: 'Recording' }).count(), 0, 'the recording for an operator');
  await operator.stop();
});

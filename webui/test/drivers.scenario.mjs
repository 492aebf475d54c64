// Settings, System: a box that was flashed with a GPU that has no driver; a driver is sent, waits for the restart, and is removed. The
// answers of the box are the test's: the machine of the test was not flashed.
import { equal, judge, scenario } from './harness.mjs';

const gpu = { bus_id: '0000:03:00.0', vendor: 'AMD', name: 'AMD GPU 1002:73df', served: false, text: 'install its driver', offer: { name: 'mesa', version: '25.0.7', file: 'edgewise-driver-mesa_25.0.7_amd64.driver', size: 71_000_000 } };
const mesa = { name: 'mesa', version: '25.0.7', kind: 'vulkan', size: 71_000_000, installed: '2026-11-24T10:00:00Z', mounted: false, next: true };

export default () => scenario({}, async (box, visitor) => {
  await box.claim();
  const { page } = visitor;
  let now = { possible: true, installed: [], devices: [gpu], restart: false };
  const sent = [];
  await page.route('**/api/v1/system/drivers**', async (route) => {
    const method = route.request().method();
    if (method === 'POST') {
      sent.push(route.request().postDataBuffer().toString());
      now = { ...now, installed: [mesa], restart: true };
    }
    if (method === 'DELETE') now = { ...now, installed: [], restart: false };
    await route.fulfill({ json: now });
  });
  await visitor.login();
  await visitor.open('/settings/system', 'Settings');
  await page.getByText('Install edgewise-driver-mesa_25.0.7_amd64.driver').waitFor();
  const problems = await judge(page, 'a device without a driver');
  await page.getByLabel('A driver extension').setInputFiles({ name: 'mesa.driver', mimeType: 'application/octet-stream', buffer: Buffer.from('a driver') });
  await page.getByText('In use after the next start of the machine').waitFor();
  equal(sent, ['a driver'], 'what was sent');
  await page.getByText('The drivers change with the next start of the machine.').waitFor();
  problems.push(...(await judge(page, 'a driver that waits')));
  await page.getByRole('button', { name: 'Remove mesa' }).click();
  await page.getByText('In use after the next start of the machine').waitFor({ state: 'detached' });
  equal(problems, [], 'what axe found');
});

// The device of a model, chosen by measurement: a fast one serves, one that answers wrong is excluded with the difference, one that is
// slower is not chosen when it is measured again, by keyboard. The fast one stands before a software device and computes nothing.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, equal, everyWidth, press, root, scenario } from './harness.mjs';
import { heavy, times } from './onnx.mjs';

const folder = mkdtempSync(join(tmpdir(), 'vulkan-'));
const loader = join(folder, 'libvulkan.so.1');
const control = join(folder, 'control');
/** What the device does in every process: 4 computes nothing, 0 is sound. */
const device = (fault) => {
  const page = Buffer.alloc(4096);
  page.writeUInt32LE(fault, 12);
  writeFileSync(control, page, { flag: 'r+' });
};
writeFileSync(control, Buffer.alloc(4096));
device(4);
const cc = spawnSync('cc', ['-shared', '-fPIC', '-O1', '-Wl,-soname,libvulkan.so.1', '-o', loader, '-DREAL="/usr/lib/chromium/libvulkan.so.1"', `-DCONTROL="${control}"`, '-x', 'c', '-', '-ldl'],
  { input: readFileSync(join(root, 'test/fakevulkan/native/shim.c')) });
check(cc.status === 0, `cc: ${cc.stderr}`);

const set = { 'gpu.vulkan': loader, 'gpu.vulkan_drivers': '/usr/lib/chromium/vk_swiftshader_icd.json', 'gpu.software': 'true', 'gpu.trial_time': '5m' };

export default () => scenario({ set }, async (box, visitor) => {
  const admin = await box.claim();
  const { page } = visitor;
  const upload = async (name, body) => {
    const answer = await admin.fetch(`/api/v1/models/${name}/versions?promote=true`, { method: 'POST', body, headers: { 'Content-Type': 'application/octet-stream' } });
    equal(answer.status, 201, `the upload of ${name}: ${await answer.text()}`);
  };
  await upload('heavy', heavy(120));
  await upload('twice', times(2));
  await visitor.login();
  const card = page.locator('section', { has: page.getByRole('heading', { name: 'Device, chosen by measurement' }) });
  const of = (name) => card.getByRole('listitem').filter({ has: page.getByText(name, { exact: true }) });
  const problems = [];

  await visitor.open('/models/heavy', 'heavy');
  await of('vulkan:0').getByText('serves').waitFor();
  await of('vulkan:0').getByText(/for 1 row \(median, between/).waitFor();
  await of('cpu').getByText('not faster').waitFor();
  await card.getByText('With random tensors of the signature.').waitFor();
  problems.push(...(await everyWidth(page, 'a device that was chosen')));

  await visitor.open('/models/twice', 'twice');
  await of('cpu').getByText('serves').waitFor();
  await of('vulkan:0').getByText('wrong answers').waitFor();
  await of('vulkan:0').getByText(/Largest difference from the CPU: .*, in output y/).waitFor();
  await of('vulkan:0').getByText(/output "y" differs by up to .*, and .* is allowed/).waitFor();
  problems.push(...(await everyWidth(page, 'a device that was excluded')));

  // Sound now, and slower.
  device(0);
  await press(card.getByRole('button', { name: 'Measure again' }), 'Enter');
  await of('vulkan:0').getByText('not faster').waitFor();
  await card.getByText('no other device is right and faster').waitFor();
  await card.getByRole('button', { name: 'Measure again' }).waitFor();
  const found = (await admin.call('GET', '/models/twice/versions/1')).choice;
  equal([found.device, found.candidates.map((c) => c.state)], ['cpu', ['chosen', 'slower']], 'what the API says');
  equal(problems, [], 'what axe found');
  rmSync(folder, { recursive: true, force: true });
});

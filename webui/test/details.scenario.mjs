// Small things that a page must not get wrong: drops beside their place, the name of the box on a phone, charts after a reload, the
// size of the disk, the memory of a model's process, a roll-back that is not there, and a file that is no backup. By
// keyboard alone but for the drops.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, choose, drop, equal, everyWidth, press, scenario, until } from './harness.mjs';
import { times } from './onnx.mjs';

/** Drops a file and waits for the events of it that the page is to get, each kept from the browser, which would open the file. */
async function dropped(page, selector, file, events) {
  await page.evaluate(() => {
    window.kept = [];
    for (const type of ['dragover', 'drop']) window.addEventListener(type, (e) => { if (e.defaultPrevented) window.kept.push(type); }, { once: true });
  });
  await drop(page, page.locator(selector), [file]);
  await until(`${events} at ${selector}`, async () => JSON.stringify(await page.evaluate(() => window.kept)) === JSON.stringify(events));
}

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  await admin.call('PATCH', '/settings', { name: 'Dock 4' });
  const { page } = visitor;
  const folder = mkdtempSync(join(tmpdir(), 'edgewise-details-'));
  const file = (name) => { writeFileSync(join(folder, name), 'hello'); return join(folder, name); };
  await page.goto(box.url);
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await dropped(page, 'body', file('cat.jpg'), ['dragover']); // where nothing can be dropped, there is no drop
  await visitor.login();
  for (const factor of [2, 3]) {
    const pushed = await admin.fetch('/api/v1/models/gauge/versions?promote=true&file=model.onnx', { method: 'POST', body: times(factor), headers: { 'Content-Type': 'application/octet-stream' } });
    check(pushed.ok, `pushing: ${await pushed.text()}`);
  }

  // A file beside the field is not opened by the browser, which would leave the page; one in the field is taken.
  await visitor.open('/models/gauge/try', 'gauge');
  await page.getByRole('button', { name: 'Run', exact: true }).waitFor();
  await dropped(page, 'h1', file('cat.jpg'), ['dragover', 'drop']);
  await page.getByText('cat.jpg is not a file that the box accepts').waitFor();
  await press(page.getByRole('button', { name: 'Raw file' }), 'Enter');
  await dropped(page, '.drop', file('numbers.bin'), ['dragover', 'drop']);
  await page.getByText('numbers.bin').first().waitFor();

  // What has happened in the last minute and a half is in the small charts after a reload, too.
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] });
  await until('some seconds of statistics', async () => {
    const asked = await admin.fetch('/v2/models/gauge/infer', { method: 'POST', body, headers: { 'Content-Type': 'application/json' } });
    check(asked.ok, `asking: ${asked.status}`);
    return (await admin.call('GET', '/statistics/recent')).filter((t) => t.requests > 0).length > 3;
  });
  await visitor.open('/', 'Home');
  const chart = page.locator('.stats div').filter({ hasText: 'Throughput' }).locator('polyline:not(.idle)');
  await chart.waitFor();
  check((await chart.getAttribute('points')).split(' ').length > 4, 'the chart of the throughput is empty after a reload');

  // The disk is that of the machine.
  const { disk } = await admin.call('GET', '/system');
  const meter = page.getByRole('progressbar', { name: 'Disk' });
  const full = await meter.evaluate((e) => e.position);
  check(disk.total > disk.free && Math.abs(full - (1 - disk.free / disk.total)) < 0.05, `the disk is shown as ${full} full: ${JSON.stringify(disk)}`);
  await visitor.open('/settings/general', 'Settings');
  await page.getByText(/ GiB of .* GiB, \d+%/).waitFor();

  // The memory of a model is that of its process.
  const { process } = await admin.call('GET', '/models/gauge/versions/2');
  await visitor.open('/models/gauge', 'gauge');
  check(process.resident > 1 << 20, `the process of the model has ${process.resident} bytes of memory`);
  await page.getByText(/ MiB in its process/).waitFor();

  // Where no version is left to roll back to, none is offered.
  await page.getByRole('button', { name: 'Roll back' }).waitFor();
  await admin.call('DELETE', '/models/gauge/versions/1');
  await page.getByRole('button', { name: 'Roll back' }).waitFor({ state: 'detached' });
  await visitor.open('/', 'Home');
  await page.getByRole('link', { name: 'gauge', exact: true }).first().waitFor();
  equal(await page.getByRole('button', { name: 'Roll back' }).count(), 0, 'roll-backs that are offered');

  // A phone says which box it is.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole('link', { name: 'Dock 4' }).waitFor();
  equal(await everyWidth(page, 'Home'), [], 'what axe found');

  // What is no backup is refused by name, or by the step that reads it.
  await visitor.open('/settings/backup', 'Settings');
  const give = (name) => choose(page.getByRole('button', { name: 'Choose a backup' }), file(name));
  await give('gauge.onnx');
  await page.getByRole('alert').getByText('gauge.onnx is not a backup').waitFor();
  await give('monday.edgewise-backup');
  await page.getByRole('article').filter({ hasText: 'monday.edgewise-backup' }).getByRole('alert').waitFor();
  check(!(await page.getByText('gauge.onnx is not a backup').isVisible()), 'the first refusal is still there');
  equal(await everyWidth(page, 'a file that is no backup'), [], 'what axe found');
  equal((await admin.call('GET', '/jobs')).map((j) => j.filename), ['monday.edgewise-backup'], 'jobs of what was given');
  rmSync(folder, { recursive: true });
});

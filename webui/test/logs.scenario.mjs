// A log that never rests: LINES lines (8,000; 100,000 in the long run) go by while it is followed, and while somebody reads.
import { Agent, request } from 'node:http';
import { tar } from './archive.mjs';
import { check, equal, patience, scenario, threadTime, until } from './harness.mjs';
import { times } from './onnx.mjs';

const lines = Number(process.env.LINES ?? 8_000);
const config = `max_batch_size: 1
input [{ name: "x" data_type: TYPE_FP32 dims: [4] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [4] }]
sequence_batching { direct {} }
`;

/** Asks for what the box warns of, once for each line: a sequence that begins again before it has ended. */
async function chatter(box, device, enough) {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  let asked = 0;
  const ask = (id) => new Promise((resolve) => {
    const body = JSON.stringify({ parameters: { sequence_id: id, sequence_start: true }, inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] });
    request({ agent, host: '127.0.0.1', port: box.port, path: '/v2/models/chatty/infer', method: 'POST', headers: { Authorization: `Bearer ${device.key}`, 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) } }, (r) => {
      r.resume();
      r.on('end', () => resolve(r.statusCode === 200));
    }).on('error', () => setTimeout(resolve, 100, false)).end(body);
  });
  await Promise.all([1, 2, 3, 4].map(async (id) => { while (!enough(asked)) { if (await ask(id)) asked++; } }));
  agent.destroy();
  return asked;
}

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const device = await box.device(admin);
  const { page } = visitor;
  const pushed = await admin.fetch('/api/v1/models/chatty/versions', { method: 'POST', body: tar({ 'config.pbtxt': config, 'model.onnx': times(2) }), headers: { 'Content-Type': 'application/x-tar' } });
  check(pushed.ok, `pushing: ${await pushed.clone().text()}`);
  await visitor.login();
  await visitor.open('/activity/logs', 'Activity');
  const log = page.getByRole('log');
  await log.getByText('version ready').first().waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
  await page.waitForTimeout(500);

  // Followed: the end is in view, the page keeps a bounded part of it, and answers to its reader.
  let read = false;
  const all = chatter(box, device, (asked) => read && asked >= lines);
  await log.getByText('a sequence is started again').first().waitFor();
  const worked = await threadTime(page);
  const frames = [];
  for (let i = 0; i < 10; i++) {
    const before = await worked();
    await page.evaluate(() => new Promise((r) => requestAnimationFrame(r)));
    frames.push((await worked()) - before);
    await page.waitForTimeout(100);
  }
  const place = () => log.evaluate((e) => ({ top: e.scrollTop, left: e.scrollHeight - e.scrollTop - e.clientHeight, nodes: e.querySelectorAll('li').length }));
  check((await place()).nodes < 200, `${(await place()).nodes} lines are in the document at once`);

  // Read: what is in view stays, while more comes.
  await log.hover();
  await page.mouse.wheel(0, -600);
  await page.getByText(/paused/).waitFor();
  const first = () => log.evaluate((e) => { const top = e.getBoundingClientRect().top; return [...e.querySelectorAll('li')].find((l) => l.getBoundingClientRect().top >= top).innerText; });
  const reading = await first();
  await page.getByText(/[\d,]+ new/).waitFor();
  await page.waitForTimeout(1500);
  equal(await first(), reading, 'the line that is read');
  await page.getByRole('button', { name: /^Follow/ }).click();
  read = true;
  const told = await all;
  await until('the end to be in view', async () => (await place()).left < 60, patience);
  await until('the last lines', async () => /5,000 lines, following/.test(await page.getByRole('status').filter({ hasText: 'lines' }).innerText()), patience);
  const shown = (await log.getByRole('listitem').allInnerTexts()).length;
  check(shown > 10 && shown < 200, `${shown} lines are in the document at the end`);
  frames.sort((a, b) => a - b);
  console.log(`logs: ${told} lines; of ten frames half took at most ${frames[4].toFixed(0)} ms of processor time, the slowest ${frames[9].toFixed(0)} ms`);
  check(frames[4] < 500, `half of the frames took ${frames[4]} ms of processor time and more`);

  // Found: a search goes through what is kept.
  await page.getByRole('searchbox', { name: 'Find in the log' }).fill('version ready');
  await until('fewer lines', async () => (await log.getByRole('listitem').count()) < 10);
});

// A rollout: a version that goes live by stages, begun in the page; its stages, its evidence and what has happened; promoted,
// rolled back, and begun again and stopped, by keyboard. Then a model that reads text: an upload that reads other characters fails its
// goldens, one that reads an 8 as a B passes them and is taken back by the canary, and a good one goes live while nobody does anything.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, drop, equal, everyWidth, pick, press, root, scenario, type, until } from './harness.mjs';
import { changed, times } from './onnx.mjs';
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
    await pick(page, 'More about version 2', 'Go live by stages');
    const dialog = page.getByRole('dialog', { name: 'Go live by stages' });
    await press(dialog.getByRole('button', { name: 'Begin' }), 'Enter');
    await card.getByText('in progress').waitFor();
  };
  await visitor.login();
  await visitor.open('/models/gauge/versions', 'gauge');
  await begin();
  equal(await card.getByRole('list', { name: 'Stages' }).getByRole('listitem').allTextContents(), ['5%', '25%', '50%', 'live'], 'the stages');
  await card.getByText('stage 1 of 3: 5 % of the requests').waitFor();
  equal(await round(visitor, [['/models/gauge/versions', 'gauge']]), [], 'what axe and the phone found');
  await press(card.getByRole('button', { name: 'Promote now' }), 'Enter');
  await card.getByText('live and watched').waitFor();
  equal(await live(), 2, 'the live version');
  await press(card.getByRole('button', { name: 'Roll back' }), 'Enter');
  await card.getByText('rolled back', { exact: true }).waitFor();
  equal(await live(), 1, 'the live version');
  await begin();
  await press(card.getByRole('button', { name: 'Stop' }), 'Enter');
  await card.getByText('stopped', { exact: true }).waitFor();
  await until('the buttons to go', async () => (await card.getByRole('button').count()) === 0);
  await plan(visitor, admin);
  await story(box, visitor, admin);
});

/** The plan of uploads, with a metric: made in the page, by keyboard; an upload then goes live by it, and one whose metric is worse is taken back. */
async function plan(visitor, admin) {
  const { page } = visitor;
  const uploads = page.getByRole('region', { name: 'How uploaded versions go live' });
  await uploads.getByText('Uploaded versions go live at once.').waitFor();
  await press(uploads.getByRole('button', { name: 'Change' }), 'Enter');
  const dialog = page.getByRole('dialog', { name: 'How uploaded versions go live' });
  await press(dialog.getByLabel('Uploaded versions go live this way from now on'), 'Space');
  for (const n of [3, 2]) await press(dialog.getByRole('button', { name: `Remove stage ${n}` }), 'Enter');
  const fill = (name, text) => type(dialog.getByLabel(name, { exact: true }), text);
  await fill('Requests in %', '50');
  await fill('For minutes', '0');
  await fill('Requests', '3000');
  await dialog.getByRole('combobox', { name: 'Output', exact: true }).selectOption('y');
  await fill('Most', '10');
  await fill('By at most', '0.5');
  equal(await everyWidth(page, 'the plan of uploads'), [], 'what axe and the phone found');
  await press(dialog.getByRole('button', { name: 'Save' }), 'Enter');
  await uploads.getByText('Uploaded versions go live by stages.').waitFor();
  const { plan } = await admin.call('GET', '/models/gauge/rollout/settings');
  equal([plan.stages, plan.metric], [[{ percent: 50, seconds: 0, requests: 3000 }], { name: 'y', output: 'y', reduce: 'mean', low: 0, high: 10, worse: 'lower', by: 0.5 }], 'the plan');

  const pushed = await admin.fetch('/api/v1/models/gauge/versions?promote=true&file=model.onnx', { method: 'POST', body: times(1), headers: { 'Content-Type': 'application/octet-stream' } });
  equal((await pushed.json()).staged, true, 'whether an upload goes live by stages');
  const card = page.getByRole('region', { name: 'Rollout of version 3 in place of 1' });
  await card.getByText('in progress').waitFor();
  await until('the metric to take it back', async () => {
    for (let i = 0; i < 20; i++) await admin.fetch('/v2/models/gauge/infer', { method: 'POST', body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [2, 2, 2, 2] }] }) });
    return card.getByText('rolled back', { exact: true }).isVisible();
  });
  await card.getByText(/^metric "y": it is 2 on average in \d+ answers to clients of the candidate, and 4 in/).first().waitFor();
  await card.getByRole('table', { name: 'y, in answers to clients' }).waitFor();
  await press(uploads.getByRole('button', { name: 'Change' }), 'Enter');
  await press(dialog.getByLabel('Uploaded versions go live this way from now on'), 'Space');
  await press(dialog.getByRole('button', { name: 'Save' }), 'Enter');
  await uploads.getByText('Uploaded versions go live at once.').waitFor();
}

const demo = join(root, 'dist/demo/models/ocr_recognize');
const output = 'softmax_11.tmp_0';
const [features, characters, width, height] = [120, 6625, 320, 48];
const labels = readFileSync(join(demo, 'labels.txt'), 'utf8').split('\n');
const network = readFileSync(join(demo, '1/model.onnx'));
/** The network with its last layer changed, of which each row has a number for every character. */
const retrained = (change) => changed(changed(network, features * characters, change), characters, change);
/** Each character becomes the next one. */
const shift = (rows) => {
  for (let i = 0; i < rows.length; i += characters) {
    const last = rows[i + characters - 1];
    rows.copyWithin(i + 1, i, i + characters - 1);
    rows[i] = last;
  }
};
/** Two characters change places. */
const swap = (a, b) => (rows) => { for (let i = 0; i < rows.length; i += characters) [rows[i + a], rows[i + b]] = [rows[i + b], rows[i + a]]; };

/** Lines of text as the model takes them: a request of the v2 protocol with a binary tensor for each. */
async function lines(page, texts) {
  const pictures = await page.evaluate(([all, w, h]) => all.map((text) => {
    const c = new OffscreenCanvas(w, h).getContext('2d');
    c.fillStyle = '#fff';
    c.fillRect(0, 0, w, h);
    c.fillStyle = '#000';
    c.font = '34px sans-serif';
    c.fillText(text, 8, 36);
    return [...c.getImageData(0, 0, w, h).data].filter((_, i) => i % 4 === 0);
  }), [texts, width, height]);
  return pictures.map((grey) => {
    const plane = new Float32Array(grey.map((v) => v / 127.5 - 1));
    const tensor = Buffer.concat(Array(3).fill(Buffer.from(plane.buffer)));
    const head = Buffer.from(JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3, height, width], parameters: { binary_data_size: tensor.length } }], parameters: { binary_data_output: true } }));
    return { body: Buffer.concat([head, tensor]), headers: { 'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': String(head.length) } };
  });
}

/** Sends a line; the answer of a version, as it comes. */
async function ask(device, line) {
  const response = await device.fetch('/v2/models/reader/infer', { method: 'POST', ...line });
  const answer = Buffer.from(await response.arrayBuffer());
  check(response.ok, `reading: ${response.status} ${answer}`);
  const size = Number(response.headers.get('inference-header-content-length'));
  return { version: JSON.parse(answer.subarray(0, size)).model_version, scores: answer.subarray(size) };
}

/** The text of an answer: the best character of each place, once. */
function text({ scores }) {
  const all = new Float32Array(new Uint8Array(scores).buffer);
  const best = Array.from({ length: all.length / characters }, (_, i) => { const row = all.subarray(i * characters, (i + 1) * characters); return row.indexOf(Math.max(...row)); });
  return best.filter((c, i) => c && c !== best[i - 1]).map((c) => labels[c]).join('');
}

async function story(box, visitor, admin) {
  const { page } = visitor;
  const device = await box.device(admin);
  const folder = mkdtempSync(join(tmpdir(), 'edgewise-rollout-'));
  const upload = async (name, content) => {
    writeFileSync(join(folder, name), content);
    await drop(page, page.getByRole('main'), [join(folder, name)]);
    const job = page.getByRole('article', { name: `Job of ${name}` });
    await job.getByText('Ready to activate').waitFor();
    return job;
  };
  const live = async () => (await admin.call('GET', '/models/reader')).labels.find((l) => l.name === 'live').version;

  await visitor.open('/models', 'Models');
  const first = await upload('reader.onnx', network);
  await press(first.getByRole('button', { name: 'Activate' }), 'Enter');
  await first.getByText('Done').waitFor();
  const texts = ['PUMP 27', 'VALVE 14', 'TANK 35', 'LINE 08'];
  const sent = await lines(page, texts);
  equal((await Promise.all(sent.map((line) => ask(device, line)))).map((answer) => text(answer).replaceAll(' ', '')), texts.map((t) => t.replaceAll(' ', '')), 'what version 1 reads');
  await admin.call('PUT', '/models/reader/goldens', { policy: 'require', rules: [{ output, kind: 'top_k', k: 1, absolute: 0.01 }] });
  for (const line of sent.slice(0, 3)) {
    const kept = await admin.fetch('/api/v1/models/reader/goldens', { method: 'POST', ...line });
    check(kept.ok, `a golden: ${await kept.clone().text()}`);
  }

  // It reads each character as the next one: the goldens keep it from going live.
  await visitor.open('/models/reader/versions', 'reader');
  const shifted = await upload('shifted.onnx', retrained(shift));
  await press(shifted.getByRole('button', { name: 'Activate' }), 'Enter');
  await press(shifted.getByRole('link', { name: 'Report of the goldens' }), 'Enter');
  await page.getByRole('heading', { name: 'Version 2 fails 3 of 3 goldens' }).waitFor();
  equal(await live(), 1, 'the live version after one that reads other characters');

  /** Stores a version and begins its rollout; requests go on until it has come to a state, which the page shows by itself. */
  const roll = async (version, name, content, requests, end) => {
    await visitor.open('/models/reader/versions', 'reader');
    const job = await upload(name, content);
    await press(job.getByRole('button', { name: 'Save without activating' }), 'Enter');
    await until(`version ${version}`, async () => (await admin.call('GET', '/models/reader')).versions.some((v) => v.version === version));
    await admin.call('POST', '/models/reader/rollout', { version, stages: [{ percent: 50, requests }], shadow: { percent: 100 }, watch_seconds: 1 });
    const card = page.getByRole('region', { name: `Rollout of version ${version} in place of 1` });
    await card.getByText('in progress').waitFor();
    let n = 0;
    await until(`the rollout of ${name} to be ${end}`, async () => {
      for (let i = 0; i < 8; i++) await ask(device, sent[n++ % sent.length]);
      return card.getByText(end, { exact: true }).first().isVisible();
    });
    console.log(`${name}: ${end} after ${n} requests`);
    return card;
  };

  // It reads an 8 as a B, which none of the goldens has. No stage is long enough to let it pass.
  const [eight, b] = ['8', 'B'].map((c) => labels.indexOf(c));
  const card = await roll(3, 'eights.onnx', retrained(swap(eight, b)), 5000, 'rolled back');
  await card.getByText(/^disagreement: \d+ of \d+ answers of the candidate differ/).first().waitFor();
  equal(await live(), 1, 'the live version after one that reads an 8 as a B');
  await press(card.getByRole('button', { name: 'Show the answers that differ most' }), 'Enter');
  await card.getByRole('region', { name: 'The answers that differ most' }).getByText(/differ, 0 may/).first().waitFor();

  await roll(4, 'better.onnx', retrained((numbers) => { for (let i = 0; i < numbers.length; i++) numbers[i] *= 1.0001; }), 30, 'done');
  equal(await live(), 4, 'the live version after a good one');
  equal((await ask(device, sent[3])).version, '4', 'the version that answers');
  rmSync(folder, { recursive: true });
}

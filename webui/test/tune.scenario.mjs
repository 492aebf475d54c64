// A tuning, begun in the page by keyboard: refused with the reason, followed over a reload and while clients need the machine, stopped;
// then one of ten seconds to its end, whatever that is, with its report, in both languages; taken back; on other hardware it says so.
import { Client, Visitor, away, check, equal, everyWidth, password, press, scenario, type, until } from './harness.mjs';
import { tar } from './archive.mjs';
import { times } from './onnx.mjs';
import { round } from './round.mjs';

/** Requests wait for others that do not come. */
const waits = `max_batch_size: 8
dynamic_batching { preferred_batch_size: 8 max_queue_delay_microseconds: 100000 }
`;
const place = '/models/gauge/tuning';

export default () => scenario({}, async (box, visitor) => {
  const admin = await box.claim();
  const pushed = await admin.fetch('/api/v1/models/gauge/versions?promote=true', { method: 'POST', body: tar({ 'model.onnx': times(2), 'config.pbtxt': waits }), headers: { 'Content-Type': 'application/x-tar' } });
  check(pushed.ok, `pushing: ${await pushed.clone().text()}`);
  await admin.call('POST', '/users', { name: 'vera', role: 'viewer', password });
  await visitor.login();
  await visitor.open('/models/gauge', 'gauge');
  await press(visitor.page.getByRole('link', { name: 'Tuning', exact: true }), 'Enter');
  const problems = await refused(visitor);
  problems.push(...(await followed(box, visitor, admin)));
  const report = await ended(visitor, admin);
  if (report) {
    problems.push(...(await shown(visitor, report)));
    await restarted(box, visitor, admin, report);
  }
  await watched(box, visitor);
  equal(problems, [], 'what axe and the phone found');
});

const form = (page) => page.getByRole('form', { name: 'Find the configuration that suits this box' });
const card = (page) => page.getByRole('region', { name: 'Tuning of version 1', exact: true });
const state = async (page) => (await card(page).getByRole('status').textContent()).trim();
/** What stands beside a word of a list. */
const fact = (region, name) => region.locator(`dt:text-is("${name}") + dd`);

/** What the box refuses is said, and nothing begins. */
async function refused(visitor) {
  const { page } = visitor;
  visitor.allow(/status of 400/);
  await type(form(page).getByLabel('p99 below, in ms'), '99999999');
  await form(page).getByLabel('What counts among those that keep it').selectOption('Weights');
  const problems = await round(visitor, [[place, 'gauge']]);
  await type(form(page).getByLabel('p99 below, in ms'), '99999999');
  await press(form(page).getByRole('button', { name: 'Tune' }), 'Enter');
  await page.getByRole('alert').getByText('want 0.001 to 3600000').first().waitFor();
  await form(page).getByLabel('What counts among those that keep it').selectOption('Weights');
  await form(page).getByLabel('Weight of energy').waitFor();
  await form(page).getByLabel('What counts among those that keep it').selectOption('As usual');
  equal(await card(page).count(), 0, 'tunings after one that was refused');
  return problems;
}

/** A long one is followed, waits while a client sends requests, and is stopped. */
async function followed(box, visitor, admin) {
  const { page } = visitor;
  await type(form(page).getByLabel('p99 below, in ms'), '40');
  await type(form(page).getByLabel('Time at most, in seconds'), '600');
  await press(form(page).getByRole('button', { name: 'Tune' }), 'Enter');
  await page.locator('h2:focus', { hasText: 'Tuning of version 1' }).waitFor();
  equal(await form(page).count(), 0, 'forms while it runs');
  const measured = async () => Number(await fact(card(page), 'Measurements').textContent());
  await until('a measurement', async () => (await state(page)) === 'measuring' && (await measured()) > 0);
  await fact(card(page), 'Tries').waitFor();
  equal(await fact(card(page), 'For').textContent(), 'p99 below 40 ms', 'what it is tuned for');
  const before = await measured();
  const client = traffic(await box.device(admin)); // so that it does not end while it is looked at
  await until('it to wait for clients', async () => (await state(page)) === 'waiting for clients');
  const problems = await round(visitor, [[place, 'gauge']]); // which loads the page again
  check((await measured()) >= before, 'a reload has lost measurements');
  await press(card(page).getByRole('button', { name: 'Stop' }), 'Enter');
  await card(page).getByText('It was stopped, and what serves is as it was.').waitFor();
  await page.locator('h2:focus', { hasText: 'Tuning of version 1' }).waitFor();
  await client.end();
  const { latest, reports } = await admin.call('GET', '/models/gauge/tunings');
  equal([latest.state, reports, await card(page).getByRole('button').count()], ['stopped', [], 0], 'what was stopped');
  return problems;
}

/** A client that sends one request after the other until it is ended; a request that fails is said then. */
function traffic(device) {
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] });
  let on = true;
  const sent = (async () => { while (on) check((await device.fetch('/v2/models/gauge/infer', { method: 'POST', body })).ok, 'a request fails beside a tuning'); })();
  sent.catch(() => {});
  return { end: () => { on = false; return sent; } };
}

/** A short one runs to its end; returns its report, if it could measure anything. */
async function ended(visitor, admin) {
  const { page } = visitor;
  await type(form(page).getByLabel('At least requests a second'), '20');
  await type(form(page).getByLabel('Time at most, in seconds'), '10');
  await press(form(page).getByRole('button', { name: 'Tune' }), 'Enter');
  await until('it to end', async () => ['done', 'failed'].includes(await state(page)));
  const { latest } = await admin.call('GET', '/models/gauge/tunings');
  equal(latest.limit_seconds, 10, 'the limit');
  if (latest.state === 'done') return latest.report;
  await card(page).getByText(latest.error).waitFor();
  return null;
}

const conclusion = (r) => (r.version === 0 ? 'Nothing is changed.' : `Version ${r.version} is ${r.live ? 'live' : 'stored'}: `);

/** The report in the page is that of the API. */
async function shown(visitor, r) {
  const { page } = visitor;
  const version = r.version || r.base;
  await card(page).getByText(conclusion(r)).waitFor();
  const region = page.getByRole('region', { name: `Report of version ${version}`, exact: true });
  await region.getByText(conclusion(r)).waitFor();
  equal(await fact(region, 'Hardware').textContent(), r.hardware.join(', '), 'the hardware');
  equal(await fact(region, 'For').textContent(), 'at least 20 requests a second', 'what it was tuned for');
  if (r.cut) await region.getByText(`The time was over before everything was searched: ${r.cut}.`).waitFor();
  const states = { chosen: 'chosen', current: 'current', worse: 'worse', misses: 'misses a bound', wrong: 'wrong answers', failed: 'failed' };
  const rows = page.getByRole('table', { name: 'What was tried' }).locator('tbody tr');
  equal(await rows.evaluateAll((all) => all.map((row) => [row.querySelector('strong').textContent, row.querySelector('.badge').textContent])), r.candidates.map((c) => [c.settings.join(', ') || 'current configuration', states[c.state]]), 'what was tried');
  const shownGains = await rows.evaluateAll((all) => all.map((row) => row.querySelector('[data-label="Gain"]').textContent.match(/[\d.,]+/g) ?? []));
  const digits = (value) => new Intl.NumberFormat('en', { maximumFractionDigits: value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2 }).format(value);
  const gains = (c) => {
    const [value, low, high] = [c.gain, c.gain_low ?? c.gain, c.gain_high ?? c.gain].map((one) => (one ? digits(one) : ''));
    return low === high ? [value].filter(Boolean) : [value, low, high];
  };
  equal(shownGains, r.candidates.map(gains), 'gains and where they are');
  for (const c of r.candidates.filter((one) => one.reason)) check((await rows.allTextContents()).some((text) => text.includes(c.reason)), `the table lacks ${c.reason}`);
  const compared = r.candidates.filter((c) => c.state === 'current' || c.state === 'chosen');
  await region.getByRole('img', { name: /^Latency by requests a second: current configuration, p50/ }).waitFor();
  await press(region.getByText('The numbers of the curve'), 'Enter');
  equal(await region.getByRole('table', { name: 'The numbers of the curve' }).locator('tbody tr').count(), compared.reduce((n, c) => n + c.points.length, 0), 'points of the curves');
  await page.getByRole('region', { name: 'Reports' }).getByText(r.version ? `times as good as version ${r.base}` : 'nothing better was found').waitFor();
  const problems = await everyWidth(page, 'the report of a tuning');
  problems.push(...(await round(visitor, [[`${place}?version=${version}`, 'gauge']])));
  await page.evaluate(() => localStorage.setItem('edgewise.language', 'de'));
  problems.push(...(await round(visitor, [[place, 'gauge']])));
  await page.getByRole('region', { name: `Bericht von Version ${version}`, exact: true }).waitFor();
  await page.evaluate(() => localStorage.setItem('edgewise.language', 'en'));
  return problems;
}

/** What it made is taken back; the report stays, and says when the box has other hardware. */
async function restarted(box, visitor, admin, r) {
  const { page } = visitor;
  const version = r.version || r.base;
  if (r.live) {
    await visitor.open(place, 'gauge');
    await press(card(page).getByRole('button', { name: `Roll back to version ${r.base}` }), 'Enter');
    await press(page.getByRole('dialog').getByRole('button', { name: `Roll back to version ${r.base}` }), 'Enter');
    await until('version 1 to be live', async () => (await admin.call('GET', '/models/gauge')).labels.find((l) => l.name === 'live').version === r.base);
  }
  visitor.allow(away);
  box.options.set = { 'onnx.threads': String(Number.parseInt(r.hardware[0], 10) + 1) };
  box.process.kill('SIGTERM');
  await box.ended;
  await box.run();
  await visitor.open('/models/gauge/versions', 'gauge');
  if (r.version) await press(page.getByRole('link', { name: 'tuning of version 1' }), 'Enter');
  else await visitor.open(place, 'gauge');
  const region = page.getByRole('region', { name: `Report of version ${version}`, exact: true });
  await region.getByText('This report does not fit the hardware any more. Tune again.').waitFor();
  await page.getByRole('region', { name: 'Reports' }).getByText('does not fit the hardware').waitFor();
  equal((await admin.call('GET', '/models/gauge/tunings')).latest, undefined, 'the tuning of a box that was started again');
}

/** Who may not change models sees what was found, and no way to tune. */
async function watched(box, visitor) {
  const vera = await new Client(box.url).login('vera');
  const viewer = await Visitor.start(box, { browser: visitor.browser });
  const [name, value] = vera.cookie.split('=');
  await viewer.context.addCookies([{ name, value, url: box.url }]);
  await viewer.open(place, 'gauge');
  await viewer.page.getByRole('link', { name: 'Tuning', exact: true }).waitFor();
  await until('the skeletons to go', async () => (await viewer.page.locator('main .skeleton').count()) === 0);
  equal([await form(viewer.page).count(), await viewer.page.getByRole('button', { name: 'Tune', exact: true }).count()], [0, 0], "a viewer's ways to tune");
  equal((await vera.fetch('/api/v1/models/gauge/tuning', { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } })).status, 403, "a viewer's tuning");
  await viewer.stop();
}

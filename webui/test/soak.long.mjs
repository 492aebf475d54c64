// A tab that stays open: MINUTES (10) of traffic and of going round the pages, and its memory stays where it was.
import { readFileSync } from 'node:fs';
import { away, check, sample, scenario } from './harness.mjs';

const minutes = Number(process.env.MINUTES ?? 10);
const MB = 1 << 20;

export default () => scenario({ imports: ['dist/demo/models', 'dist/demo/pipelines'] }, async (box, visitor) => {
  const admin = await box.claim();
  const device = await box.device(admin);
  const face = readFileSync(sample('face.jpg'));
  const { page } = visitor;
  let running = true;
  let asked = 0;
  let broken = 0;
  // A machine that stands still for longer than a header may take is not what this is about.
  visitor.allow(away);
  visitor.allow(/status of 408/);
  const traffic = (async () => {
    while (running) {
      const response = await device.fetch('/v2/models/faces/infer', { method: 'POST', body: face, headers: { 'Content-Type': 'image/jpeg' } }).catch(() => null);
      if (response) {
        check(response.ok, `asking: ${response.status}`);
        await response.arrayBuffer();
        asked++;
      } else broken++;
      await new Promise((r) => setTimeout(r, 150));
    }
  })();
  await visitor.login();
  const session = await visitor.context.newCDPSession(page);
  await session.send('HeapProfiler.enable');
  const measure = async () => {
    await page.getByRole('navigation', { name: 'Main', exact: true }).getByRole('link', { name: 'Home', exact: true }).click();
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
    await page.waitForTimeout(500);
    for (let i = 0; i < 3; i++) await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    const { nodes, jsEventListeners } = await session.send('Memory.getDOMCounters');
    return { heap: usedSize / MB, nodes, listeners: jsEventListeners };
  };
  const round = async () => {
    for (const name of ['Models', 'Ensembles', 'Steps', 'Activity', 'Settings', 'Home']) {
      await page.getByRole('navigation', { name: 'Main', exact: true }).getByRole('link', { name, exact: true }).click();
      await page.getByRole('heading', { name, level: 1 }).waitFor();
      await page.waitForTimeout(700);
    }
    for (const path of ['/models/faces', '/models/face/graph', '/activity/logs', '/models/faces/versions']) {
      await page.evaluate((to) => { const a = document.createElement('a'); a.href = to; document.body.append(a); a.click(); a.remove(); }, path);
      await page.waitForTimeout(1200);
    }
  };
  // The first minutes fill what is bounded: the last 90 ticks, the charts, the log.
  const end = Date.now() + minutes * 60_000;
  const settled = Date.now() + Math.min(3, minutes / 3) * 60_000;
  const list = [];
  while (Date.now() < end) {
    await round();
    const now = await measure();
    list.push({ at: Date.now(), ...now });
    console.log(`${asked} requests: ${now.heap.toFixed(2)} MB, ${now.nodes} nodes, ${now.listeners} listeners`);
  }
  running = false;
  await traffic;
  check(broken <= asked / 100, `${broken} of ${asked} connections broke off`);
  const after = list.filter((m) => m.at > settled);
  check(after.length >= 4, `only ${after.length} looks after the first minutes: give it more MINUTES`);
  const half = Math.floor(after.length / 2);
  const mean = (part, key) => part.reduce((a, m) => a + m[key], 0) / part.length;
  const grown = { heap: mean(after.slice(half), 'heap') - mean(after.slice(0, half), 'heap'), nodes: mean(after.slice(half), 'nodes') - mean(after.slice(0, half), 'nodes'), listeners: mean(after.slice(half), 'listeners') - mean(after.slice(0, half), 'listeners') };
  console.log(`from the first to the second half: ${grown.heap.toFixed(2)} MB, ${grown.nodes.toFixed(0)} nodes, ${grown.listeners.toFixed(0)} listeners`);
  check(grown.heap < 5, `the heap grew by ${grown.heap} MB`);
  check(grown.nodes < 2000 && grown.listeners < 500, `the document grew: ${JSON.stringify(grown)}`);
});

// A version from a registry: how much of it has come, a pull that is cancelled and one that fails, each with its reason, and that the next
// one fetches nothing twice. The registry is Debian's docker-registry.
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Cable, check, equal, everyWidth, inspect, patience, press, root, scenario, type, until } from './harness.mjs';
import { times } from './onnx.mjs';

const MB = 1 << 20;
const ballast = 64 * MB;

/** Debian's registry, at a port that stays its own when it is started again. */
class Registry {
  static async start(base) {
    const r = new Registry();
    const server = createServer();
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    r.port = server.address().port;
    await new Promise((done) => server.close(done));
    r.config = join(base, 'registry.yml');
    writeFileSync(r.config, `version: 0.1\nstorage: {filesystem: {rootdirectory: ${join(base, 'registry')}}, cache: {}}\nhttp: {addr: "127.0.0.1:${r.port}"}\nlog: {level: error}\n`);
    await r.run();
    return r;
  }
  async run() {
    this.process = spawn('docker-registry', ['serve', this.config], { stdio: 'ignore' });
    this.ended = new Promise((done) => this.process.once('exit', done));
    await until('the registry to answer', () => fetch(`http://127.0.0.1:${this.port}/v2/`).then((a) => a.ok, () => false));
  }
  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }
}

/** The programs that a box runs to fetch something. */
const fetchers = (box) => readdirSync('/proc').filter((name) => {
  try {
    return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('edgewise-fetch')
      && Number(readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ')[1]) === box.process.pid;
  } catch {
    return false; // it has ended meanwhile
  }
}).length;

export default () => scenario({}, async (box, visitor) => {
  const base = mkdtempSync(join(tmpdir(), 'edgewise-pull-'));
  const registry = await Registry.start(base);
  const cable = await Cable.to(registry);
  try {
    await pulls(box, visitor, base, registry, cable);
  } finally {
    await registry.kill();
    cable.close();
    rmSync(base, { recursive: true, force: true });
  }
});

async function pulls(box, visitor, base, registry, cable) {
  const admin = await box.claim();
  mkdirSync(join(base, 'heavy/1'), { recursive: true });
  writeFileSync(join(base, 'heavy/1/model.onnx'), times(2));
  writeFileSync(join(base, 'heavy/1/calibration.bin'), randomBytes(ballast));
  const edgewise = (...args) => execFileSync(join(root, 'bin/edgewise'), ['--server', box.url, ...args], { encoding: 'utf8' });
  edgewise('model', 'push', 'heavy', join(base, 'heavy'));
  edgewise('model', 'push', 'heavy', `oci://127.0.0.1:${registry.port}/models/heavy:1`);
  const files = (await admin.call('GET', '/models/heavy')).versions[0].files;
  await admin.call('DELETE', '/models/heavy');

  const { page } = visitor;
  await visitor.login();
  await visitor.open('/models', 'Models');
  const reference = `127.0.0.1:${new URL(cable.url).port}/models/heavy:1`;
  const pull = async () => {
    await press(page.getByRole('button', { name: 'From a registry' }), 'Enter');
    await type(page.getByLabel('Reference'), reference);
    await page.keyboard.press('Enter');
  };
  const job = page.getByRole('article', { name: `Job of oci://${reference}` });
  const fetching = job.getByRole('listitem', { name: /^Fetch from the registry/ });
  const share = async () => Number(/(\d+) %/.exec(await fetching.textContent().catch(() => ''))?.[1] ?? -1);

  // A third of it has come, and nothing more comes: that is shown, and stays, until it is cancelled.
  cable.most = ballast / 3;
  await pull();
  await until('a part to have come', async () => (await share()) >= 10);
  await until('the line to be silent', () => cable.pulled);
  const before = await share();
  check(before >= 10 && before <= 40, `${before} % are shown of a third`);
  await job.getByText('Working').waitFor();
  const problems = await everyWidth(page, 'a pull');
  equal(fetchers(box), 1, 'programs that fetch');
  await press(job.getByRole('button', { name: 'Cancel' }), 'Enter');
  await job.waitFor({ state: 'detached' });
  await until('the program to end that fetches', () => fetchers(box) === 0);
  equal([await admin.call('GET', '/jobs'), await admin.call('GET', '/models')], [[], []], 'jobs and models after a pull that was cancelled');
  cable.cut();
  cable.plug();

  // The registry goes away in the middle: the step says why, and that nothing was stored.
  cable.most = cable.received + ballast / 3;
  await pull();
  await until('more to have come', async () => (await share()) > before);
  await until('the line to be silent', () => cable.pulled);
  await registry.kill();
  cable.cut();
  await job.getByText('Fetch from the registry failed').waitFor();
  await job.getByText(/heavy.*: unavailable: /).first().waitFor();
  problems.push(...(await inspect(page, 'a pull that failed')));
  equal(await admin.call('GET', '/models'), [], 'models after a pull that failed');
  await press(job.getByRole('button', { name: 'Discard' }), 'Enter');
  await job.waitFor({ state: 'detached' });

  // It is back: what has come is not fetched again, and the version is what was published.
  await registry.run();
  cable.plug();
  const came = cable.received;
  await pull();
  await job.getByText('Ready to activate').waitFor({ timeout: patience });
  check(cable.received - came < ballast * 2 / 3, `${cable.received - came} bytes came, although a third was there`);
  check(cable.received < ballast * 1.2, `${cable.received} bytes came in all`);
  await press(job.getByRole('button', { name: 'Activate' }), 'Enter');
  await job.getByText('Done').waitFor();
  equal((await admin.call('GET', '/models/heavy')).versions[0].files, files, 'the files of the version');

  // One that is not there.
  await press(page.getByRole('button', { name: 'From a registry' }), 'Enter');
  await type(page.getByLabel('Reference'), reference.replace(/1$/, '9'));
  await page.keyboard.press('Enter');
  const none = page.getByRole('article', { name: /heavy:9/ });
  await none.getByText('Fetch from the registry failed').waitFor();
  await none.getByText(/no such|not exist|not found|there is no/i).first().waitFor();
  equal(problems, [], 'what axe found, and what leaves the page');
}

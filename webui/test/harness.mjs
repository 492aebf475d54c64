// What every scenario stands on: a box of its own, a real browser, and the rules that hold on every page.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { chromium } from 'playwright-core';

export const root = resolve(import.meta.dirname, '../..');
export const sample = (name) => join(root, 'configs/demo/samples', name);
export const password = 'correct horse battery staple';

const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream'];
/** A busy machine of two cores is no reason to fail. */
export const patience = Number(process.env.PATIENCE ?? 600_000);

export function check(good, text) {
  if (!good) throw new Error(text);
}
export function equal(got, want, text) {
  check(JSON.stringify(got) === JSON.stringify(want), `${text}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}
/** Waits until `look` finds something. `text` says what for, or is a function that says it once the wait is over. */
export async function until(text, look, limit = patience) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${typeof text === 'function' ? text() : text}`);
    await new Promise((r) => setTimeout(r, 100));
  }
}

/** Returns a function that tells how many milliseconds of processor time the page's thread has taken so far. */
export async function threadTime(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  return async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return 1000 * metrics.find((m) => m.name === 'TaskDuration').value;
  };
}

async function freePort() {
  const server = createServer();
  await new Promise((r) => server.listen(0, '127.0.0.1', r));
  const { port } = server.address();
  await new Promise((r) => server.close(r));
  return port;
}

/** A box with a folder of its own, which can be killed and started again. */
export class Box {
  static async start(options = {}) {
    const box = new Box();
    box.data = mkdtempSync(join(options.disk ?? tmpdir(), 'edgewise-browser-'));
    box.options = options;
    for (let left = 5; ; left--) { // somebody else may take a port that was free a moment ago
      box.port = await freePort();
      box.grpc = await freePort();
      box.url = `${options.tls ? 'https' : 'http'}://127.0.0.1:${box.port}`;
      try {
        await box.run();
        return box;
      } catch (e) {
        if (left === 0 || !/address already in use/.test(box.output) || box.process.exitCode === null) throw e;
      }
    }
  }
  async run() {
    const settings = { data_dir: this.data, 'http.address': `127.0.0.1:${this.port}`, 'grpc.address': `127.0.0.1:${this.grpc}`, 'store.reserve_bytes': '64MiB', ...(this.options.tls ? { 'tls.mode': 'require' } : {}), ...this.options.set };
    const args = ['serve', ...Object.entries(settings).flatMap(([k, v]) => ['--set', `${k}=${v}`])];
    for (const folder of this.options.imports ?? []) args.push('--import', join(root, folder));
    this.output = '';
    this.process = spawn(join(root, 'bin/edgewise'), args, { cwd: root });
    this.ended = new Promise((r) => this.process.once('exit', r));
    // What a box that has been running for long says is of use only where it ends.
    const hear = (d) => (this.output = this.output.length > 1 << 20 ? this.output.slice(-1 << 18) + d : this.output + d);
    this.process.stdout.on('data', hear);
    this.process.stderr.on('data', hear);
    await until(`the box to be ready\n${this.output.slice(-2000)}`, () => {
      check(this.process.exitCode === null, `the box did not start: ${this.output.slice(-3000)}`);
      return /^ready$/m.test(this.output);
    });
    this.code ??= /Claim code:\s+(\S+)/.exec(this.output)?.[1];
  }
  /** How many bytes of the disk it keeps free. */
  reserve() {
    return Number(this.options.set['store.reserve_bytes']);
  }
  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }
  async stop() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill('SIGTERM');
      await Promise.race([this.ended, new Promise((r) => setTimeout(r, 15_000))]);
      if (this.process.exitCode === null) this.process.kill('SIGKILL');
      await this.ended;
    }
    rmSync(this.data, { recursive: true, force: true });
  }
  /** A program with a key, as a device has one: people are held to what a person needs. */
  async device(admin, name = 'device', more = {}) {
    const client = new Client(this.url);
    client.key = (await admin.call('POST', '/keys', { name, rights: ['infer', 'read'], models: [], rate: 0, concurrency: 0, ...more })).secret;
    return client;
  }
  /** Claims the box without the page, for scenarios about something else. */
  async claim() {
    const session = new Client(this.url);
    await session.call('POST', '/setup/claim', { code: this.code, user: 'anna', password });
    for (const step of ['name', 'tls', 'model']) await session.call('PUT', `/setup/steps/${step}`);
    return session;
  }
}

/** A program that speaks to the box with a session or a key. */
export class Client {
  constructor(url) {
    this.url = url;
    this.cookie = this.csrf = '';
  }
  async fetch(path, options = {}) {
    const headers = { ...(this.key ? { Authorization: `Bearer ${this.key}` } : {}), ...(this.cookie ? { Cookie: this.cookie } : {}), ...(this.csrf ? { 'X-CSRF-Token': this.csrf } : {}), ...options.headers };
    const response = await fetch(this.url + path, { ...options, headers });
    const set = response.headers.get('set-cookie');
    if (set) this.cookie = set.split(';')[0];
    return response;
  }
  async call(method, path, body) {
    const response = await this.fetch('/api/v1' + path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }) });
    const text = await response.text();
    check(response.ok, `${method} ${path}: ${response.status} ${text}`);
    const answer = text ? JSON.parse(text) : null;
    if (answer?.csrf) this.csrf = answer.csrf;
    return answer;
  }
  async login(user, secret = password) {
    await this.call('POST', '/session', { user, password: secret });
    return this;
  }
}

/** What lies between a browser and the box, or between others: it can be pulled, so that nothing arrives any more and nobody is told, and cut. */
export class Cable {
  static async to(box) {
    const cable = new Cable();
    cable.pairs = new Set();
    cable.pulled = false;
    cable.received = 0; // bytes that came back
    cable.most = Infinity; // of them: then it pulls itself
    cable.server = createServer((near) => {
      const far = connect(box.port, '127.0.0.1');
      const pair = [near, far];
      cable.pairs.add(pair);
      for (const [from, to] of [pair, [far, near]]) {
        from.on('data', (d) => {
          if (!to.write(d)) from.pause();
          if (from === far && (cable.received += d.length) >= cable.most) cable.pull();
        });
        to.on('drain', () => { if (!cable.pulled) from.resume(); });
        from.on('close', () => { to.destroy(); cable.pairs.delete(pair); });
        from.on('error', () => to.destroy());
        if (cable.pulled) from.pause();
      }
    });
    await new Promise((r) => cable.server.listen(0, '127.0.0.1', r));
    cable.url = `http://127.0.0.1:${cable.server.address().port}`;
    return cable;
  }
  pull() {
    this.pulled = true;
    for (const pair of this.pairs) for (const socket of pair) socket.pause();
  }
  plug() {
    this.pulled = false;
    this.most = Infinity;
    for (const pair of this.pairs) for (const socket of pair) socket.resume();
  }
  cut() {
    for (const pair of this.pairs) for (const socket of pair) socket.destroy();
  }
  close() {
    this.cut();
    this.server.close();
  }
}

/** A browser whose every page is watched: errors, what its policy refuses, and requests to anybody but the box. */
export class Visitor {
  static async start(box, options = {}) {
    const v = new Visitor();
    v.box = box;
    v.url = options.url ?? box.url;
    v.complaints = [];
    v.browser = options.browser ?? (await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: flags }));
    v.own = !options.browser;
    v.context = await v.browser.newContext({ viewport: options.viewport ?? { width: 1280, height: 860 }, colorScheme: options.dark ? 'dark' : 'light', permissions: ['camera', 'microphone'], ignoreHTTPSErrors: box.options.tls === true, ...options.context });
    v.context.setDefaultTimeout(patience);
    v.context.on('page', (page) => v.watch(page));
    v.page = await v.context.newPage();
    return v;
  }
  /** Errors that a scenario brings about on purpose. */
  allow(pattern) {
    this.allowed = [...(this.allowed ?? []), pattern];
  }
  watch(page) {
    page.on('console', (m) => { if (m.type() === 'error') this.complain(`console: ${m.text()} ${m.location().url}`); });
    page.on('pageerror', (e) => this.complain(`error: ${e.message}`));
    page.on('request', (r) => {
      const url = new URL(r.url());
      if (/^https?:|^wss?:/.test(url.protocol) && url.origin !== this.url) this.complain(`a request leaves the box: ${r.url()}`);
      if (/password|secret/i.test(url.search)) this.complain(`a secret in an address: ${r.url()}`);
    });
  }
  complain(text) {
    if (![overtaken, ...(this.allowed ?? [])].some((p) => p.test(text))) this.complaints.push(text);
  }
  async login(user = 'anna', secret = password) {
    await this.page.goto(this.url + '/');
    await this.page.getByLabel('Name').fill(user);
    await this.page.getByLabel('Password', { exact: true }).fill(secret);
    await this.page.getByRole('button', { name: 'Log in' }).click();
    await this.page.getByRole('heading', { name: 'Home', level: 1 }).waitFor();
  }
  async open(path, heading) {
    await this.page.goto(this.url + path);
    if (heading) await this.page.getByRole('heading', { name: heading, level: 1 }).waitFor();
  }
  async stop() {
    await this.context.close();
    if (this.own) await this.browser.close();
    equal([...new Set(this.complaints)], [], 'what the browser complained about');
  }
}

/** A job's comparison with the live version that arrived after its activation: a busy machine lets one overtake the other. */
const overtaken = /status of 409 .*\/jobs\/\w+\/comparison/;

/** What a browser says when the box is away: which of its errors depends on the moment. */
export const away = /net::ERR_/;

/** Drags files of the disk over an element and drops them there, as the browser's own input. */
export async function drop(page, locator, files) {
  await locator.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await locator.boundingBox();
  const seen = page.viewportSize();
  const middle = (from, size, end) => (Math.max(from, 0) + Math.min(from + size, end)) / 2; // of what stands in the window
  const session = await page.context().newCDPSession(page);
  const event = (type) => session.send('Input.dispatchDragEvent', { type, x: middle(x, width, seen.width), y: middle(y, height, seen.height), data: { items: [], files, dragOperationsMask: 1 } });
  for (const type of ['dragEnter', 'dragOver', 'drop']) await event(type);
  await session.detach();
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe finds of serious and critical problems in what a page shows now. */
export async function judge(page, where) {
  // The policy keeps foreign scripts out of the page; axe comes in through the debugger, which stands outside of it.
  const session = await page.context().newCDPSession(page);
  const there = await session.send('Runtime.evaluate', { expression: 'typeof axe' });
  if (there.result.value !== 'object') await session.send('Runtime.evaluate', { expression: axe });
  const found = await session.send('Runtime.evaluate', { expression: `axe.run(document, { resultTypes: ['violations'] }).then((r) => JSON.stringify(r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => v.id + ': ' + v.nodes.map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).slice(0, 3).join(' | '))))`, awaitPromise: true, returnByValue: true });
  await session.detach();
  return JSON.parse(found.result.value).map((v) => `${where}: ${v}`);
}

/** Waits until what the page shows stays as it is: a new colour or width arrives a frame after it was asked for, and some colours pass through others on their way. */
export const painted = (page) => page.evaluate(async () => {
  const frames = () => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
  // Each frame looks again: the promise of a transition whose element goes away may stay open.
  const moving = () => document.getAnimations().some((a) => a instanceof CSSTransition && a.playState === 'running');
  do await frames(); while (moving());
  await frames();
});

/** What axe finds of what a page shows now, in both colours. */
export async function inspect(page, where) {
  await painted(page);
  const found = await judge(page, where);
  await page.emulateMedia({ colorScheme: 'dark' });
  await painted(page);
  found.push(...(await judge(page, where + ' dark')));
  await page.emulateMedia({ colorScheme: 'light' });
  return found;
}

/** What axe finds in both colours at each width, and what leaves the page to the side. */
export async function everyWidth(page, where) {
  const found = [];
  for (const width of [1440, 390, 1280]) {
    await page.setViewportSize({ width, height: 860 });
    found.push(...(await inspect(page, `${where} at ${width}`)));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) found.push(`${where} scrolls sideways by ${wide} px at ${width}`);
    if (process.env.PICTURES) await page.screenshot({ path: join(process.env.PICTURES, `${where.replaceAll(/\W+/g, '-')}-${width}.png`), fullPage: true });
  }
  return found;
}

/** Presses keys where the keyboard stands on an element, once it is enabled, as a click waits for it. */
export async function press(locator, ...keys) {
  await until(`${locator} to be enabled`, () => locator.isEnabled());
  await locator.focus();
  for (const key of keys) await locator.page().keyboard.press(key);
}

/** Opens a menu by its button and takes one of its items, by keyboard. */
export async function pick(page, button, item) {
  await press(page.getByRole('button', { name: button }), 'Enter');
  await page.locator('[role=menuitem]:focus').waitFor(); // the menu takes the focus when it is open
  await press(page.getByRole('menuitem', { name: item }), 'Enter');
}

/** Opens a file chooser where the keyboard stands on its button or field, and chooses files. */
export async function choose(locator, ...files) {
  const chooser = locator.page().waitForEvent('filechooser');
  await press(locator, 'Enter');
  await (await chooser).setFiles(files);
}

/** Types into a field in place of what is there, by keyboard. */
export async function type(locator, text) {
  await press(locator, 'Control+a');
  await locator.page().keyboard.type(text);
}

/** Runs a scenario with a box and ends both, whatever happens. A failure leaves a picture behind where SHOTS says so. */
export async function scenario(options, run) {
  const box = await Box.start(options);
  let visitor;
  try {
    visitor = await Visitor.start(box, options);
    await run(box, visitor);
    await visitor.stop();
  } catch (failure) {
    if (process.env.SHOTS) await visitor?.page?.screenshot({ path: join(process.env.SHOTS, `failed-${process.argv[2] ?? 'scenario'}.png`), fullPage: true }).catch(() => {});
    console.error('address:', visitor?.page?.url());
    console.error(box.output.split('\n').filter((l) => /level=(WARN|ERROR)/.test(l)).slice(-10).join('\n'));
    await visitor?.browser?.close().catch(() => {});
    throw failure;
  } finally {
    await box.stop();
  }
}

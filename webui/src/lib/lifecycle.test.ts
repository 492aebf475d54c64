import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

vi.stubGlobal('window', globalThis);
vi.stubGlobal('EventSource', class { addEventListener() {} close() {} });
const senders: { name: string; running: boolean }[] = [];
vi.mock('tus-js-client', () => ({ Upload: class {
  url = null;
  readonly state: (typeof senders)[number];
  constructor(_: Blob, options: { metadata: { filename: string } }) { senders.push((this.state = { name: options.metadata.filename, running: false })); }
  findPreviousUploads = async () => [];
  start() { this.state.running = true; }
  abort = async () => { this.state.running = false; };
} }));

const { box } = await import('./box.svelte');
const { live } = await import('./live.svelte');
const { toasts } = await import('./toast.svelte');
const { uploads } = await import('./uploads.svelte');
const { who } = await import('./session.svelte');
const { updates } = await import('./system.svelte');
const { Workspace } = await import('../pages/ensembles/workspace.svelte');
const { maxSteps, steps } = await import('./ensemble');
const { call, get } = await import('./api');
await import('tus-js-client');

type Answer = { status?: number; body: unknown } | Error;
let answers: Record<string, Answer> = {};
let sent: { what: string; keepalive: boolean }[] = [];
const settle = async () => { for (let i = 0; i < 30; i++) await vi.advanceTimersByTimeAsync(0); };
const event = (name: string, data: unknown) => live['dispatch']({ event: name, data: JSON.stringify(data), id: '' });
const polls = () => sent.filter((s) => s.what === 'GET /models').length;

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  senders.length = 0;
  answers = { 'GET /models': { body: [] }, 'GET /system': { body: { time: new Date().toISOString() } }, 'GET /deployments?limit=20': { body: [] }, 'GET /jobs': { body: [] } };
  vi.stubGlobal('fetch', vi.fn(async (path: string, o: RequestInit) => {
    const what = `${o.method} ${path.replace('/api/v1', '')}`;
    sent.push({ what, keepalive: o.keepalive === true });
    const answer = answers[what] ?? { status: 404, body: { error: 'nothing here' } };
    if (answer instanceof Error) throw answer;
    return new Response(JSON.stringify(answer.body), { status: answer.status ?? 200 });
  }));
});
afterEach(() => { vi.useRealTimers(); toasts.list = []; });

describe('somebody who logs out and in again', () => {
  it('sees each second once, and nothing of before', async () => {
    const end = box.start();
    await settle();
    event('statistics', { models: [], requests: 1 });
    end();
    expect([box.models, box.ticks]).toEqual([null, []]);
    const again = box.start();
    await settle();
    event('statistics', { models: [], requests: 1 });
    expect(box.ticks).toHaveLength(1);
    again();
  });
  it('leaves no question behind that is asked for ever', async () => {
    const end = box.start();
    await settle();
    end();
    const before = polls();
    await vi.advanceTimersByTimeAsync(120_000);
    expect(polls()).toBe(before);
  });
  it('finds no upload of somebody else', async () => {
    const end = uploads.start();
    uploads.add([{ name: 'a', blob: new Blob(['x']), what: 'file' }]);
    await settle();
    expect(senders.map((s) => s.running)).toEqual([true]);
    end();
    expect([senders.map((s) => s.running), uploads.transfers, uploads.jobs]).toEqual([[false], [], []]);
  });
});

it('a paused upload lets the next one go', async () => {
  const end = uploads.start();
  uploads.add(['a', 'b', 'c'].map((name) => ({ name, blob: new Blob(['x']), what: 'file' as const })));
  await settle();
  uploads.pause(uploads.transfers.find((t) => t.name === 'a')!.key);
  await settle();
  expect(senders.filter((s) => s.running).map((s) => s.name)).toEqual(['b', 'c']);
  end();
});

describe('the box', () => {
  it('counts all versions of a model together', () => {
    const end = box.start();
    event('statistics', { requests: 9, models: [{ model: 'm', version: 1, requests: 2, p95_us: 5 }, { model: 'm', version: 2, requests: 3, p95_us: 7 }, { model: 'n', version: 1, requests: 4, p95_us: null }] });
    expect([box.now('m'), box.now('n'), box.now('o'), box.series('m', 'requests'), box.series('o', 'p95_us')]).toEqual([{ requests: 5, p95_us: 7 }, { requests: 4, p95_us: 0 }, { requests: 0, p95_us: 0 }, [5], [0]]);
    end();
  });
  it('has a clock of its own', async () => {
    answers['GET /system'] = { body: { time: new Date(Date.now() - 3_600_000).toISOString() } };
    const end = box.start();
    await settle();
    expect(box.skew).toBe(3_600_000);
    end();
  });
});

describe('what is announced', () => {
  it('goes by itself, an error last', async () => {
    for (const options of [{}, { action: { text: 'Undo', run: () => {} } }, { tone: 'bad' } as const]) toasts.show('text', options);
    const left = [];
    for (let i = 0; i < 4; i++) { left.push(toasts.list.length); await vi.advanceTimersByTimeAsync([5000, 5000, 10_000, 0][i]!); }
    expect(left).toEqual([3, 2, 1, 0]);
  });
  it('is done at once when the page is left, and once', async () => {
    answers['DELETE /keys/k'] = { body: null };
    toasts.soon('The key was revoked.', () => call('DELETE', '/keys/k'));
    await toasts.flush();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(sent).toEqual([{ what: 'DELETE /keys/k', keepalive: true }]);
  });
  it('is not done when it was taken back', async () => {
    toasts.soon('The key was revoked.', () => call('DELETE', '/keys/k'));
    toasts.list[0]!.action!.run();
    await toasts.flush();
    expect(sent).toEqual([]);
  });
  it('is done before a log-out, which says when it failed', async () => {
    who.accept({ authenticated: true, rights: ['read'], csrf: 'x' } as never);
    answers['DELETE /keys/k'] = { body: null };
    answers['DELETE /session'] = new TypeError('fetch failed');
    toasts.soon('The key was revoked.', () => call('DELETE', '/keys/k'));
    await who.logout();
    expect(sent.map((s) => s.what).slice(0, 2)).toEqual(['DELETE /keys/k', 'DELETE /session']);
    expect(toasts.list.map((t) => [t.tone, t.text.startsWith('You are still logged in.')])).toEqual([['bad', true]]);
  });
});

describe('a session that has ended', () => {
  it('asks for no login at a box that was reset, and shows its set-up', async () => {
    who.accept({ authenticated: true, rights: ['read'], csrf: 'x' } as never);
    answers['GET /models'] = { status: 401, body: { error: 'log in', reason: 'login_required' } };
    answers['GET /setup'] = { body: { claimed: false, auth: 'accounts' } };
    answers['GET /session'] = { body: { authenticated: false, rights: [] } };
    await expect(get('/models')).rejects.toThrow();
    expect([who.asking, who.setup?.claimed, who.session?.authenticated]).toEqual([null, false, false]);
  });
  it('asks for a login where there are accounts, also while a password is asked for', async () => {
    who.accept({ authenticated: true, rights: ['read'], csrf: 'x' } as never);
    answers['GET /setup'] = { body: { claimed: true, auth: 'accounts' } };
    answers['GET /keys'] = { status: 403, body: { error: 'confirm', reason: 'confirm_required' } };
    const asked = get('/keys').catch((e: Error) => e.message);
    await settle();
    expect(who.asking).toBe('confirm');
    who.ended();
    expect(who.asking).toBe('login');
    who.answered(false);
    expect(await asked).toBe('Confirm.');
  });
});

describe('a box that restarts', () => {
  const update = { body: { slots: [] } };
  const began = (started: string) => ({ body: { started, time: new Date().toISOString() } });
  it('is away until it has started again, though it still answers at first', async () => {
    answers['GET /system/update'] = update;
    answers['POST /system/restart'] = { body: null };
    answers['GET /system'] = began('2026-01-01T00:00:00Z');
    await box.refresh();
    expect(await updates.leave('/system/restart')).toBe(true);
    await updates.refresh();
    expect(updates.away).toBe(true);
    answers['GET /system'] = began('2026-01-01T00:05:00Z');
    await updates.refresh();
    expect(updates.away).toBe(false);
  });
  it('is back when it answers after it did not', async () => {
    answers['POST /system/restart'] = { body: null };
    await updates.leave('/system/restart');
    answers['GET /system/update'] = new TypeError('fetch failed');
    await updates.refresh();
    expect([updates.away, updates.trouble]).toEqual([true, null]);
    answers['GET /system/update'] = update;
    await updates.refresh();
    expect(updates.away).toBe(false);
  });
  it('shows a failure no longer than it lasts', async () => {
    answers['GET /system/update'] = new TypeError('fetch failed');
    await updates.refresh();
    expect(updates.trouble?.message).toMatch(/does not answer/);
    answers['GET /system/update'] = update;
    await updates.refresh();
    expect(updates.trouble).toBeNull();
  });
});

describe('a draft', () => {
  const begun = async () => {
    answers['GET /drafts/d'] = { body: { id: 'd', name: 'chain', revision: 1, config: {} } };
    const work = new Workspace('d');
    await work.load();
    return work;
  };
  it('takes as many steps as there may be, and says so', async () => {
    const work = await begun();
    for (let i = 0; i <= maxSteps; i++) work.add('m');
    expect([steps(work.config!).length, toasts.list.map((t) => t.text)]).toEqual([maxSteps, [`An ensemble has at most ${maxSteps} steps.`]]);
  });
  it('says why it is not saved, also when what another has saved cannot be read', async () => {
    const work = await begun();
    answers['PUT /drafts/d'] = { status: 409, body: { error: 'changed meanwhile' } };
    delete answers['GET /drafts/d'];
    work.add('m');
    await work.save();
    expect([work.saving, work.trouble?.message]).toEqual(['failed', 'Changed meanwhile.']);
  });
  it('leaves its steps where they stand when one goes, and brings it back to its place', async () => {
    const work = await begun();
    for (const name of ['a', 'b', 'c']) work.add(name);
    work.arrange({ s0: { x: 0, y: 0 }, s1: { x: 1, y: 0 }, s2: { x: 2, y: 0 }, in: { x: 9, y: 9 } });
    const before = work.places;
    work.remove(0);
    expect(work.places).toEqual({ s0: { x: 1, y: 0 }, s1: { x: 2, y: 0 }, in: { x: 9, y: 9 } });
    work.undo();
    expect(work.places).toEqual(before);
    work.shift(0, 1);
    expect([steps(work.config!).map((s) => s.model_name), work.places.s0, work.places.s1]).toEqual([['b', 'a', 'c'], { x: 1, y: 0 }, { x: 0, y: 0 }]);
  });
});

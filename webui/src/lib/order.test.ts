import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

vi.stubGlobal('window', globalThis);
vi.stubGlobal('EventSource', class { addEventListener() {} close() {} });

const { live } = await import('./live.svelte');
const { Order } = await import('./order');
const { joined } = await import('./requests');
const { uploads } = await import('./uploads.svelte');
const { box } = await import('./box.svelte');
const { updates } = await import('./system.svelte');
const { who } = await import('./session.svelte');

/** The box, which answers when a test says so, in the order that the test wants. */
class Asked {
  static all: Asked[] = [];
  private resolve!: (r: Response) => void;
  readonly answered = new Promise<Response>((r) => (this.resolve = r));
  constructor(readonly path: string) { Asked.all.push(this); }
  answer(body: unknown, status = 200) { this.resolve(new Response(JSON.stringify(body), { status })); }
}
const asked = (path: string) => Asked.all.filter((a) => a.path === '/api/v1' + path);
const settle = async () => { for (let i = 0; i < 30; i++) await vi.advanceTimersByTimeAsync(0); };
const event = (name: string, data: unknown) => live['dispatch']({ event: name, data: JSON.stringify(data), id: '' });

beforeEach(() => {
  vi.useFakeTimers();
  Asked.all = [];
  vi.stubGlobal('fetch', vi.fn((path: string) => new Asked(path).answered));
});
afterEach(() => vi.useRealTimers());

describe('the order of questions', () => {
  it('drops what a later answer, or something that is known, has overtaken', () => {
    const order = new Order();
    const [first, second, third] = [order.ask(), order.ask(), order.ask()];
    expect([second(), first(), third()]).toEqual([true, false, true]);
    const fourth = order.ask();
    order.invalidate();
    const fifth = order.ask();
    expect([fourth(), fifth()]).toEqual([false, true]);
  });
  it('hands on neither an answer nor a failure that is old', async () => {
    const order = new Order();
    const good = vi.fn();
    const bad = vi.fn();
    const old = [order.apply(Promise.resolve('old'), good, bad), order.apply(Promise.reject(new Error('old')), good, bad)];
    order.invalidate();
    await Promise.all([...old, order.apply(Promise.resolve('new'), good, bad)]);
    expect([good.mock.calls, bad.mock.calls]).toEqual([[['new']], []]);
  });
});

describe('requests', () => {
  const row = (number: number) => ({ number, model: 'm' }) as never;
  it('stand in the list once, the latest first, and not more than are kept', () => {
    const numbers = (list: { number: number }[]) => list.map((r) => r.number);
    expect(numbers(joined([row(2), row(1)], [row(4), row(2)]))).toEqual([4, 2, 1]);
    expect(numbers(joined([row(2), row(1)], [row(3)], 2))).toEqual([3, 2]);
  });
});

describe('jobs', () => {
  const job = (id: string, revision: number, state = 'running', created = '2026-01-01T00:00:00Z') => ({ id, revision, state, created, steps: [] }) as never;
  const known = () => uploads.jobs.map((j) => `${j.id} ${j.revision} ${j.state}`);

  it('are not undone by an answer that an event has overtaken', async () => {
    uploads.jobs = [job('a', 3, 'staged')];
    void uploads.refresh();
    uploads.note(job('a', 9, 'done'));
    uploads.note(job('b', 1));
    asked('/jobs')[0]!.answer([job('a', 4), job('c', 1)]);
    await settle();
    expect(known()).toEqual(['b 1 running', 'a 9 done', 'c 1 running']);
  });
  it('that were discarded meanwhile do not come back', async () => {
    uploads.jobs = [job('a', 3, 'staged'), job('b', 3)];
    void uploads.refresh();
    uploads.jobs = uploads.jobs.filter((j) => j.id !== 'a');
    asked('/jobs')[0]!.answer([job('a', 3, 'staged')]);
    await settle();
    expect(known()).toEqual([]); // b is gone from the box
  });
  it('that go on after a failure are shown to, and so are those that a restarted box begins again', () => {
    uploads.jobs = [job('a', 9, 'failed')];
    uploads.note(job('a', 10));
    expect(known()).toEqual(['a 10 running']);
    uploads.note(job('a', 2, 'running', '2026-01-01T00:05:00Z'));
    expect(known()).toEqual(['a 2 running']);
  });
  it('stay while the box does not answer', async () => {
    uploads.jobs = [job('a', 3)];
    void uploads.refresh();
    asked('/jobs')[0]!.answer({ error: 'starting' }, 503);
    await settle();
    expect(known()).toEqual(['a 3 running']);
  });
});

describe('what every page shows', () => {
  const answer = (at: number, name: string, deployments: number[]) => {
    asked('/models')[at]!.answer([{ name }]);
    asked('/system')[at]!.answer({ name });
    asked('/deployments?limit=20')[at]!.answer(deployments.map((number) => ({ number })));
  };
  const shown = () => [box.models?.[0]?.name, box.system?.name, box.deployments?.map((d) => d.number)];

  it('is the answer to the latest question, whichever comes last', async () => {
    void box.refresh();
    void box.refresh();
    answer(1, 'new', [2, 1]);
    await settle();
    answer(0, 'old', [1]);
    await settle();
    expect(shown()).toEqual(['new', 'new', [2, 1]]);
  });
  it('keeps a change that an event told of while the box was asked', async () => {
    box.start();
    event('deployment', { number: 3 });
    answer(0, 'new', [2, 1]);
    await settle();
    expect(shown()).toEqual(['new', 'new', [3, 2, 1]]);
  });
  it('does not show an old failure over a new answer', async () => {
    void box.refresh();
    void box.refresh();
    answer(1, 'new', []);
    await settle();
    asked('/models')[0]!.answer({ error: 'starting' }, 503);
    await settle();
    expect([box.trouble, box.models?.[0]?.name]).toEqual([null, 'new']);
  });
});

describe('an update', () => {
  it('is where the last event said, not where an answer from before did', async () => {
    const update = (state: string) => ({ job: { state } }) as never;
    void updates.refresh();
    updates['apply'](update('done'));
    asked('/system/update')[0]!.answer(update('installing'));
    await settle();
    expect(updates.now?.job?.state).toBe('done');
  });
});

describe('a session', () => {
  it('that has begun is not ended by an answer from before', async () => {
    void who.load();
    who.accept({ authenticated: true, rights: ['read'], csrf: 'x' } as never);
    asked('/session')[0]!.answer({ authenticated: false, rights: [] });
    asked('/setup')[0]!.answer({});
    await settle();
    expect(who.session?.authenticated).toBe(true);
  });
});

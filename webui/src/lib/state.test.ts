import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

vi.stubGlobal('window', globalThis);

/** Stands in for the sender: tests decide how it goes on. */
class Sender {
  static all: Sender[] = [];
  url: string | null = null;
  running = false;
  removed = false;
  constructor(
    readonly blob: Blob,
    readonly options: Record<string, (...args: never[]) => unknown> & { metadata: { filename: string } },
  ) {
    Sender.all.push(this);
  }
  findPreviousUploads = async () => [];
  start() {
    this.running = true;
  }
  abort = async (remove = false) => {
    this.running = false;
    this.removed ||= remove;
  };
}
vi.mock('tus-js-client', () => ({ Upload: Sender }));

const { toasts } = await import('./toast.svelte');
const { previousVersion } = await import('./box.svelte');
const { uploads } = await import('./uploads.svelte');
const { Workspace } = await import('../pages/ensembles/workspace.svelte');
const { addStep, empty, removeStep, steps } = await import('./ensemble');

await import('tus-js-client');
/** Lets everything happen that waits for nothing but its turn. */
const settle = async () => { for (let i = 0; i < 30; i++) await vi.advanceTimersByTimeAsync(0); };
const sender = (name: string) => Sender.all.find((s) => s.options.metadata.filename === name)!;
beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  toasts.list = [];
});

describe('what can be taken back', () => {
  it('is done after a while', async () => {
    const run = vi.fn(async () => {});
    toasts.soon('gone', run);
    await vi.advanceTimersByTimeAsync(5900);
    expect(run).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(200);
    expect(run).toHaveBeenCalledOnce();
    expect(toasts.list).toEqual([]);
  });
  it('is not done once it was taken back', async () => {
    const run = vi.fn(async () => {});
    const undone = vi.fn();
    toasts.soon('gone', run, undone);
    toasts.list[0]!.action!.run();
    await vi.advanceTimersByTimeAsync(10_000);
    expect([run.mock.calls.length, undone.mock.calls.length]).toEqual([0, 1]);
  });
  it('comes back when it cannot be done, and says why', async () => {
    const undone = vi.fn();
    toasts.soon('gone', async () => { throw new Error('it is in use'); }, undone);
    await vi.advanceTimersByTimeAsync(7000);
    expect(undone).toHaveBeenCalledOnce();
    expect(toasts.list.map((t) => [t.text, t.tone])).toEqual([['it is in use', 'bad']]);
  });
  it('shows four messages at most, errors longest, and none for ever', async () => {
    for (let i = 0; i < 6; i++) toasts.show(`m${i}`, { tone: i === 5 ? 'bad' : 'plain' });
    expect(toasts.list.map((t) => t.text)).toEqual(['m2', 'm3', 'm4', 'm5']);
    await vi.advanceTimersByTimeAsync(19_000);
    expect(toasts.list.map((t) => t.text)).toEqual(['m5']);
    await vi.advanceTimersByTimeAsync(2000);
    expect(toasts.list).toEqual([]);
  });
});

describe('a roll-back', () => {
  const model = (history: number[], versions: number[]) => ({ labels: [{ name: 'live', version: 3, history }], versions: versions.map((version) => ({ version })) }) as never;
  it.each([
    [[1, 2], [1, 2, 3], 2],
    [[1, 2], [1, 3], 1],
    [[1, 2], [3], 0],
    [[3], [3], 0],
    [[], [1, 2, 3], 0],
  ])('after %j, of %j, goes to %i', (history, versions, want) => expect(previousVersion(model(history, versions))).toBe(want));
});

describe('uploads', () => {
  const parcel = (name: string) => ({ name, blob: new Blob(['x'.repeat(100)]), what: 'file' as const });
  const states = () => Object.fromEntries(uploads.transfers.map((t) => [t.name, t.state]));
  beforeEach(() => {
    Sender.all = [];
    uploads.transfers = [];
    vi.stubGlobal('fetch', vi.fn(async () => new Response('{}', { status: 404 })));
  });

  it('go two at a time, in the order in which they were added', async () => {
    uploads.add([parcel('a'), parcel('b'), parcel('c')]);
    await settle();
    expect(states()).toEqual({ a: 'sending', b: 'sending', c: 'waiting' });
    (sender('a').options.onSuccess as () => void)();
    await settle();
    expect(states()).toEqual({ b: 'sending', c: 'sending' });
  });
  it('that are cancelled are removed from the box, but not before that can be taken back', async () => {
    uploads.add([parcel('a'), parcel('b')]);
    await settle();
    const [a, b] = ['a', 'b'].map((name) => uploads.transfers.find((t) => t.name === name)!.key);
    uploads.cancel(a!);
    expect([uploads.transfers.find((t) => t.key === a)!.gone, sender('a').running, sender('a').removed]).toEqual([true, false, false]);
    toasts.list[0]!.action!.run();
    await settle();
    expect([uploads.transfers.find((t) => t.key === a)!.gone, states().a]).toEqual([false, 'sending']);
    uploads.cancel(b!);
    await vi.advanceTimersByTimeAsync(6500);
    expect([states(), sender('b').removed]).toEqual([{ a: 'sending' }, true]);
  });
  it('say what the box says when it refuses one, and let the next one go', async () => {
    uploads.add([parcel('a'), parcel('b'), parcel('c')]);
    await settle();
    const refusal = Object.assign(new Error('tus: refused'), { originalResponse: { getStatus: () => 507, getBody: () => '{"error":"the disk has 2 GiB free","code":"exhausted"}' } });
    (sender('a').options.onError as (e: Error) => void)(refusal);
    await settle();
    expect([states(), uploads.transfers.find((t) => t.name === 'a')!.trouble!.message]).toEqual([{ a: 'failed', b: 'sending', c: 'sending' }, 'the disk has 2 GiB free']);
  });
  it('go on after the login that a session which has ended asks for, and ask once', async () => {
    vi.stubGlobal('fetch', vi.fn(async () => new Response('[]')));
    uploads.add([parcel('a')]);
    await settle();
    const ended = Object.assign(new Error('tus: refused'), { originalResponse: { getStatus: () => 401, getBody: () => '{"error":"log in"}' } });
    (sender('a').options.onError as (e: Error) => void)(ended);
    expect(states()).toEqual({ a: 'failed' });
    await settle();
    expect(states()).toEqual({ a: 'sending' });
    (sender('a').options.onError as (e: Error) => void)(ended);
    await settle();
    expect(states()).toEqual({ a: 'failed' });
  });
  it('go on after a lost connection, and not after a refusal', () => {
    uploads.add([parcel('a')]);
    const retry = (status: number) => (sender('a').options.onShouldRetry as (e: object) => boolean)(Object.assign(new Error('tus: refused'), { originalResponse: status ? { getStatus: () => status, getBody: () => '' } : null }));
    return settle().then(() => expect([0, 409, 423, 429, 502, 503, 400, 403, 413, 507].map(retry)).toEqual([true, true, true, true, true, true, false, false, false, false]));
  });
});

describe('a draft that is edited', () => {
  let revision = 1;
  let stored: { config: unknown; revision: number };
  const puts: number[] = [];
  const answer = (body: object, status = 200) => new Response(JSON.stringify(body), { status });
  beforeEach(() => {
    revision = 1;
    puts.length = 0;
    stored = { config: empty(), revision };
    vi.stubGlobal('fetch', vi.fn(async (path: string, options: { method?: string; body?: string } = {}) => {
      if (path.endsWith('/validation')) return answer({ valid: true, problems: [], steps: [] });
      if (options.method === 'PUT') {
        const sent = JSON.parse(options.body!);
        puts.push(sent.revision);
        if (sent.revision !== revision) return answer({ error: 'changed meanwhile' }, 409);
        stored = { config: sent.config, revision: ++revision };
      }
      return path.includes('/models/') ? answer({ error: 'none' }, 404) : answer({ id: 'd', name: 'chain', owner: 'person:olaf', ...stored });
    }));
  });
  const begin = async () => {
    const work = new Workspace('d');
    await work.load();
    return work;
  };
  const names = (work: InstanceType<typeof Workspace>) => steps(work.config!).map((s) => s.model_name);

  it('goes back and forth, and is stored a moment after the last change', async () => {
    const work = await begin();
    for (const name of ['a', 'b', 'c']) work.edit(addStep(work.config!, name));
    work.undo();
    work.undo();
    expect([names(work), work.canUndo, work.canRedo, puts]).toEqual([['a'], true, true, []]);
    work.redo();
    expect(names(work)).toEqual(['a', 'b']);
    work.edit(addStep(work.config!, 'd'));
    expect([names(work), work.canRedo]).toEqual([['a', 'b', 'd'], false]);
    await vi.advanceTimersByTimeAsync(700);
    expect([puts, work.saving, names(work)]).toEqual([[1], 'saved', ['a', 'b', 'd']]);
  });
  it('remembers a hundred steps back', async () => {
    const work = await begin();
    for (let i = 0; i < 65; i++) {
      work.edit(addStep(work.config!, 'a'));
      work.edit(removeStep(work.config!, 0));
    }
    let back = 0;
    for (; work.canUndo; back++) work.undo();
    expect(back).toBe(100);
  });
  it('shows what another has stored, and keeps either', async () => {
    const work = await begin();
    stored = { config: addStep(empty(), 'theirs'), revision: ++revision };
    work.edit(addStep(work.config!, 'mine'));
    await vi.advanceTimersByTimeAsync(700);
    expect([work.saving, work.conflict?.revision, names(work)]).toEqual(['failed', 2, ['mine']]);
    work.settle(false);
    await vi.advanceTimersByTimeAsync(700);
    expect([work.saving, work.conflict, puts]).toEqual(['saved', null, [1, 2]]);

    const other = await begin();
    stored = { config: addStep(empty(), 'theirs'), revision: ++revision };
    other.edit(addStep(other.config!, 'mine'));
    await vi.advanceTimersByTimeAsync(700);
    other.settle(true);
    expect([names(other), other.saving]).toEqual([['theirs'], 'saved']);
  });
});

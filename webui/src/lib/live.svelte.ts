import { who } from './session.svelte';

/** An event of the box. */
export const basics = ['model', 'job', 'statistics', 'deployment', 'rollout', 'settings'];
const always = ['hello', 'ping', 'gap'];
const extras = ['log', 'request'] as const;
export type Extra = (typeof extras)[number];
type Message = { event: string; data: string; id: string };
type Post = { kind: 'event'; message: Message } | { kind: 'want'; tab: string; extras: Extra[]; gone?: boolean } | { kind: 'leader' } | { kind: 'lost' };
type Handler = (data: never) => void;

/** The box pings every 5 s; the stream is dead when two pings are missing. */
export const staleAfter = 11_000;
/** There are statistics every second: after this silence the page asks whether the box is there. */
const suspectAfter = 1250;
/** A box that has neither sent nor answered anything for this long is away: 2 s with the time to show it. */
const awayAfter = 1900;

/**
 * One stream of events for all tabs of a browser: HTTP/1.1 allows six connections to a box, and eight tabs with a stream of
 * their own would leave none for anything else. The tab that holds the lock reads the stream and hands it on. Where there are
 * no locks (plain HTTP) each visible tab has its own stream and gives it up when it is hidden.
 */
class Live {
  /** The time of the last event in milliseconds; 0: none yet. */
  last = $state(0);
  now = $state(Date.now());
  /** Whether the box did not answer when it was asked, and has sent nothing since. */
  private lost = $state(false);
  /** Whether an answer is waited for; an event is one, too. */
  private asking = false;
  private watch = 0;
  private handlers = new Map<string, Set<Handler>>();
  private wanted = new Map<string, Set<Extra>>(); // by tab
  private mine = new Map<Extra, number>();
  private readonly tab = Math.random().toString(36).slice(2);
  private channel: BroadcastChannel | null = null;
  private source: EventSource | null = null;
  private leading = false;
  private lastId = '';
  private opened = '';
  private timer = 0;
  private release: (() => void) | null = null;

  get fresh(): boolean {
    return this.last > 0 && !this.lost && this.now - this.last < staleAfter;
  }
  /** Whole seconds since the last event. */
  get age(): number {
    return Math.max(0, Math.round((this.now - this.last) / 1000));
  }

  start(): void {
    if (this.timer) return;
    this.timer = window.setInterval(() => this.tick(), 1000);
    if ('locks' in navigator && 'BroadcastChannel' in window) this.share();
    else {
      document.addEventListener('visibilitychange', this.seen);
      this.leading = true;
      if (!document.hidden) this.open();
    }
  }

  private seen = () => (document.hidden ? this.shut() : this.open());

  stop(): void {
    document.removeEventListener('visibilitychange', this.seen);
    clearInterval(this.timer);
    clearTimeout(this.watch);
    this.timer = 0;
    this.shut();
    this.leading = false;
    this.channel?.postMessage({ kind: 'want', tab: this.tab, extras: [], gone: true } satisfies Post);
    this.channel?.close();
    this.channel = null;
    this.release?.();
    this.release = null;
    this.last = 0;
    this.lastId = '';
  }

  /** Calls a handler for each event of a name until the returned function is called. */
  on<T>(event: string, handler: (data: T) => void): () => void {
    const set = this.handlers.get(event) ?? new Set();
    this.handlers.set(event, set.add(handler as Handler));
    const extra = extras.find((x) => x === event);
    if (extra) this.want(extra, 1);
    return () => {
      set.delete(handler as Handler);
      if (extra) this.want(extra, -1);
    };
  }

  private want(extra: Extra, change: number): void {
    this.mine.set(extra, (this.mine.get(extra) ?? 0) + change);
    this.announce();
  }

  private announce(): void {
    const list = extras.filter((x) => (this.mine.get(x) ?? 0) > 0);
    this.note(this.tab, list);
    this.channel?.postMessage({ kind: 'want', tab: this.tab, extras: list } satisfies Post);
  }

  private note(tab: string, list: Extra[]): void {
    if (list.length === 0) this.wanted.delete(tab);
    else this.wanted.set(tab, new Set(list));
    if (this.leading && this.source && this.topics() !== this.opened) this.open();
  }

  private topics(): string {
    const some = extras.filter((x) => [...this.wanted.values()].some((set) => set.has(x)));
    return [...basics.filter((topic) => topic !== 'job' || who.can('operate')), ...some].join(','); // the box refuses a stream for one topic too many
  }

  private share(): void {
    this.channel = new BroadcastChannel('edgewise.live');
    this.channel.onmessage = (e: MessageEvent<Post>) => {
      if (e.data.kind === 'event') this.dispatch(e.data.message);
      else if (e.data.kind === 'leader') this.announce();
      else if (e.data.kind === 'lost') this.lost = true;
      else this.note(e.data.tab, e.data.gone ? [] : e.data.extras);
    };
    addEventListener('pagehide', () => this.channel?.postMessage({ kind: 'want', tab: this.tab, extras: [], gone: true } satisfies Post));
    void navigator.locks.request('edgewise.live', async () => {
      if (!this.channel) return;
      this.leading = true;
      this.channel.postMessage({ kind: 'leader' } satisfies Post);
      this.open();
      await new Promise<void>((resolve) => (this.release = resolve));
    });
    this.announce();
  }

  private open(): void {
    this.shut();
    this.opened = this.topics();
    const query = new URLSearchParams({ topics: this.opened });
    if (this.lastId) query.set('after', this.lastId);
    const source = new EventSource('/api/v1/events?' + query);
    this.source = source;
    source.addEventListener('error', () => void this.ask());
    for (const event of [...always, ...basics, ...extras]) {
      source.addEventListener(event, (e: MessageEvent<string>) => {
        const message = { event, data: e.data, id: e.lastEventId };
        this.dispatch(message);
        if (this.shared(event)) this.channel?.postMessage({ kind: 'event', message } satisfies Post);
      });
    }
  }

  /** Whether an event is forwarded to other tabs: optional events only when a tab subscribed to them. */
  private shared(event: string): boolean {
    const extra = extras.find((x) => x === event);
    return !extra || [...this.wanted].some(([tab, wants]) => tab !== this.tab && wants.has(extra));
  }

  private shut(): void {
    this.source?.close();
    this.source = null;
  }

  private dispatch(message: Message): void {
    if (message.id) this.lastId = message.id;
    // A log may send thousands of events per second: the age is updated for a few of them.
    const now = Date.now();
    this.lost = this.asking = false;
    if (now - this.last > 250) {
      this.last = this.now = now;
      this.suspect();
    }
    const set = this.handlers.get(message.event);
    if (!set?.size) return;
    const data = (message.data ? JSON.parse(message.data) : {}) as never;
    for (const handler of [...set]) handler(data);
  }

  /** Asks after a silence. A hidden tab that only gets what another one reads leaves that to those that are seen. */
  private suspect(): void {
    clearTimeout(this.watch);
    this.watch = window.setTimeout(() => (this.source || !document.hidden ? void this.ask() : this.suspect()), suspectAfter);
  }

  /** Asks whether the box answers at all: a stream also ends when a session does. */
  private async ask(): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    try {
      await fetch('/v2/health/live', { cache: 'no-store', signal: AbortSignal.timeout(awayAfter - suspectAfter) });
    } catch {
      this.lost = this.asking && this.timer !== 0;
      if (this.lost) this.channel?.postMessage({ kind: 'lost' } satisfies Post);
    }
    this.asking = false;
    if (!this.lost && this.timer) this.suspect();
  }

  /** Reopens a stream that was refused or is silent. A refusal may mean that the session ended. */
  private tick(): void {
    this.now = Date.now();
    if (!this.leading || (document.hidden && !this.channel)) return;
    const silent = this.now - this.last > staleAfter * 2;
    const refused = this.source?.readyState === EventSource.CLOSED;
    if (this.source && !refused && !silent) return;
    if (this.now % 4000 > 1000) return;
    if (refused && !who.asking) void fetch('/api/v1/session').then((r) => r.json()).then((s) => { if (!s.authenticated && who.session?.authenticated) void who.challenge('login').then((ok) => { if (!ok) void who.load(); }); }).catch(() => {});
    if (!who.asking) this.open();
  }
}

export const live = new Live();

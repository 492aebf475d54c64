import { get, type Deployment, type Model, type Schemas, type System, type Tick, type Failure, failure, type Version } from './api';
import { live } from './live.svelte';
import { sizes } from './format';
import { Order } from './order';
import { msg } from './language.svelte';

/** Seconds of statistics kept for the small charts. */
const keep = 90;
/** Deployments kept. */
const mostDeployments = 20;

/** The state of the box that all pages share: models, health and recent statistics. */
class Box {
  models = $state.raw<Model[] | null>(null);
  system = $state.raw<System | null>(null);
  deployments = $state.raw<Deployment[] | null>(null);
  ticks = $state.raw<Tick[]>([]);
  trouble = $state.raw<Failure | null>(null);
  /** How far the clock of this device is ahead of the box, in milliseconds. Times are those of the box. */
  skew = $state(0);
  private timer = 0;
  private asked = 0;
  private order = new Order();
  private ends: (() => void)[] = [];
  /** Statistics of each model per second, cached for long lists. */
  private sums = new WeakMap<Tick, Map<string, Sum>>();

  get tick(): Tick | null {
    return this.ticks.at(-1) ?? null;
  }

  model(name: string): Model | undefined {
    return this.models?.find((m) => m.name === name);
  }

  /** Recent statistics of a model, oldest first. */
  series(name: string, field: keyof Sum): number[] {
    return this.ticks.map((t) => this.sum(t).get(name)?.[field] ?? 0);
  }

  /** The statistics of all versions of a model in the last second. */
  now(name: string): Sum {
    return (this.tick && this.sum(this.tick).get(name)) ?? { requests: 0, p95_us: 0 };
  }

  private sum(tick: Tick): Map<string, Sum> {
    const known = this.sums.get(tick);
    if (known) return known;
    const made = new Map<string, Sum>();
    for (const m of tick.models) {
      const before = made.get(m.model) ?? { requests: 0, p95_us: 0 };
      made.set(m.model, { requests: before.requests + m.requests, p95_us: Math.max(before.p95_us, m.p95_us ?? 0) });
    }
    this.sums.set(tick, made);
    return made;
  }

  /** Starts polling and listening; the returned function stops both and clears the state. */
  start(): () => void {
    this.ends = [
      live.on<Schemas['ModelEvent']>('model', () => this.soon()),
      live.on<unknown>('gap', () => this.soon()),
      live.on<unknown>('settings', () => this.soon()),
      live.on<Deployment>('deployment', (d) => {
        this.deployments = joined([d], this.deployments ?? []);
        this.soon();
      }),
      live.on<Tick>('statistics', (t) => (this.ticks = [...this.ticks.slice(1 - keep), t])),
    ];
    void this.refresh();
    void this.earlier();
    return () => this.stop();
  }

  /** Reads the seconds before the first event, so that the small charts begin with them. */
  private async earlier(): Promise<void> {
    const list = await get<Tick[]>('/statistics/recent').catch(() => []);
    if (!this.ends.length) return;
    const first = Date.parse(this.ticks[0]?.time ?? '') || Infinity;
    this.ticks = [...list.filter((t) => Date.parse(t.time) < first), ...this.ticks].slice(-keep);
  }

  private stop(): void {
    for (const end of this.ends.splice(0)) end();
    clearTimeout(this.timer);
    clearTimeout(this.asked);
    this.order.invalidate();
    this.models = this.system = this.deployments = this.trouble = null;
    this.ticks = [];
  }

  async refresh(): Promise<void> {
    const counts = this.order.ask();
    try {
      const [models, system, deployments] = await Promise.all([get<Model[]>('/models'), get<System>('/system'), get<Deployment[]>(`/deployments?limit=${mostDeployments}`)]);
      if (counts()) {
        this.models = models;
        this.system = system;
        this.skew = Date.now() - new Date(system.time).getTime() || 0;
        this.deployments = joined(deployments, this.deployments ?? []);
        this.trouble = null;
      }
    } catch (thrown) {
      if (counts()) this.trouble = failure(thrown);
    }
    clearTimeout(this.timer);
    if (this.ends.length) this.timer = window.setTimeout(() => this.refresh(), 30_000);
  }

  /** Reloads once after a burst of events. */
  private soon(): void {
    clearTimeout(this.asked);
    this.asked = window.setTimeout(() => this.refresh(), 150);
  }
}

type Sum = { requests: number; p95_us: number };

/** Merges two lists of deployments without duplicates, newest first. */
function joined(a: Deployment[], b: Deployment[]): Deployment[] {
  const all = new Map([...b, ...a].map((d) => [d.number, d]));
  return [...all.values()].sort((x, y) => y.number - x.number).slice(0, mostDeployments);
}

export const box = new Box();

/** The label of the version that is loaded for testing. */
export const testing = 'test';

/** The version with a label; 0 for none. */
export function labelled(model: Pick<Model, 'labels'>, name: string): number {
  return model.labels.find((l) => l.name === name)?.version ?? 0;
}

/** The live version; 0 for none. */
export const liveVersion = (model: Pick<Model, 'labels'>): number => labelled(model, 'live');

export function versionOf(model: Model, version: number): Version | undefined {
  return model.versions.find((v) => v.version === version);
}

/** The version that a rollback would make live: the last one that was live before and is still stored; 0 for none. */
export function previousVersion(model: Model): number {
  const live = model.labels.find((l) => l.name === 'live');
  return live?.history?.findLast((n) => n !== live.version && versionOf(model, n)) ?? 0;
}

export type Standing = { tone: 'good' | 'warn' | 'bad' | 'idle'; text: string; reason: string; unverified?: string };

/** The result of the latest requests to a version as a sentence. */
export function failing(health: NonNullable<Version['health']>): string {
  const last = health.last_error;
  const failed = msg.shell.lastRequestsHaveFailed(health.failed, health.recent);
  return last ? `${failed} ${msg.shell.theLastError(last.code, sizes(last.message))}` : failed;
}

/** The state of a model in a word, with the reason when it is unhealthy. */
export function standing(model: Model): Standing {
  const at = liveVersion(model);
  const version = versionOf(model, at);
  if (!version || !model.wanted) return { tone: 'idle', text: at ? msg.shell.stopped : msg.shell.notActive, reason: '' };
  switch (version.state) {
    case 'READY':
      if (version.health?.failing) return { tone: 'bad', text: msg.shell.failing, reason: failing(version.health) };
      return { tone: 'good', text: msg.shell.serving, reason: '', unverified: version.health?.unverified };
    case 'LOADING':
      return { tone: 'warn', text: msg.shell.loading, reason: '' };
    case 'UNLOADING':
      return { tone: 'idle', text: msg.shell.stopping, reason: '' };
    default:
      return { tone: 'bad', text: msg.shell.notReady, reason: sizes(version.reason ?? '') };
  }
}

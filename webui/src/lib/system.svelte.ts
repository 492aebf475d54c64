import { call, failure, get, send, type Failure, type Schemas, type System } from './api';
import { box } from './box.svelte';
import { Order } from './order';
import { who } from './session.svelte';
import { msg } from './language.svelte';

export type SystemUpdate = Schemas['SystemUpdate'];

/** A box that still answers after this many milliseconds did not restart. */
const mostLeaving = 60_000;
const busyStates = ['receiving', 'checking', 'installing'];

/** The state of updates of the box. It subscribes to events only while a page shows it. */
class Updates {
  now = $state.raw<SystemUpdate | null>(null);
  trouble = $state.raw<Failure | null>(null);
  sending = $state(false);
  /** The box was asked to restart and has not answered since. */
  away = $state(false);
  /** The error of polling; a response clears it. */
  private lost: Failure | null = null;
  /** The time of the restart request, the start time before it, and whether the box has been unreachable since. */
  private left = 0;
  private started = '';
  private down = false;
  private source: EventSource | null = null;
  private timer = 0;
  private stopper: AbortController | null = null;
  private order = new Order();

  get busy(): boolean {
    return this.sending || busyStates.includes(this.now?.job?.state ?? '');
  }

  /** Starts watching; the returned function stops it. */
  watch(): () => void {
    void this.refresh();
    this.source = new EventSource('/api/v1/events?topics=update');
    this.source.addEventListener('update', (e: MessageEvent<string>) => this.apply(JSON.parse(e.data) as SystemUpdate));
    this.timer = window.setInterval(() => void this.refresh(), 2500);
    return () => {
      this.source?.close();
      this.source = null;
      clearInterval(this.timer);
    };
  }

  /** Applies a state of the box; responses of earlier requests are older. */
  private apply(now: SystemUpdate): void {
    this.order.invalidate();
    this.now = now;
  }

  async refresh(): Promise<void> {
    const counts = this.order.ask();
    try {
      const now = await get<SystemUpdate>('/system/update', { silent: this.away });
      if (counts()) this.now = now;
      if (this.lost && this.trouble === this.lost) this.trouble = null;
      this.lost = null;
      if (this.away) await this.back();
    } catch (thrown) {
      const f = failure(thrown);
      if (!this.away) this.trouble = this.lost = f;
      else if (f.status === 401) await who.load(); // the box is back, and the session ended
      else this.down = true;
    }
  }

  /** The box answered. It has restarted when it was unreachable or its start time changed. */
  private async back(): Promise<void> {
    await box.refresh();
    if (this.down || box.system?.started !== this.started || Date.now() - this.left > mostLeaving) this.away = false;
  }

  /** Sends an update: a bundle, or a package with the file of its signature. */
  async upload(files: File[]): Promise<void> {
    const signature = files.find((f) => f.name.endsWith('.minisig'));
    const file = files.find((f) => f !== signature);
    if (!file) return;
    this.sending = true;
    this.trouble = null;
    this.stopper = new AbortController();
    try {
      const headers: Record<string, string> = { 'Content-Type': 'application/octet-stream' };
      if (signature) headers['Edgewise-Signature'] = btoa(await signature.text());
      const answer = await send('/api/v1/system/update', { method: 'POST', body: file, headers, signal: this.stopper.signal });
      this.apply((await answer.json()) as SystemUpdate);
    } catch (thrown) {
      if (!this.stopper.signal.aborted) this.trouble = failure(thrown);
    } finally {
      this.sending = false;
      this.stopper = null;
      await this.refresh();
    }
  }

  /** Requests a change; true when it succeeded. */
  async ask(method: string, path: string, body?: unknown): Promise<boolean> {
    this.trouble = null;
    try {
      const answer = await call<SystemUpdate | undefined>(method, path, body);
      if (answer) this.apply(answer);
      await box.refresh();
      return true;
    } catch (thrown) {
      this.trouble = failure(thrown);
      return false;
    }
  }

  async cancel(): Promise<void> {
    await this.ask('DELETE', '/system/update');
    this.stopper?.abort();
  }

  /** Requests a change that restarts the box. */
  async leave(path: string, body?: unknown): Promise<boolean> {
    this.started = box.system?.started ?? '';
    const agreed = await this.ask('POST', path, body);
    [this.away, this.down, this.left] = [agreed, false, Date.now()];
    return agreed;
  }
}

export const updates = new Updates();

/** The text of a slot. */
export function slotText(slot: SystemUpdate['slots'][number], now: SystemUpdate): string {
  const parts = [slot.version ? msg.settings.versionNamed(slot.version) : msg.settings.asFlashed];
  if (slot.name === now.booted) parts.push(msg.settings.runsNow);
  else if (slot.name === now.next) parts.push(msg.settings.runsAfterRestart);
  if (!slot.good) parts.push(slot.name === now.booted ? msg.settings.itsCheckNotOverYet : msg.settings.notBootable);
  return parts.join(', ');
}

export type SafeStart = NonNullable<System['safe_start']>;

/** The names of the suspected models, without versions. */
export function suspects(safe: SafeStart): string[] {
  return [...new Set(safe.models.map((m) => m.replace(/:\d+$/, '')))];
}

import { call, Failure, failure, get, identify, type Schemas, type Session } from './api';
import { Order } from './order';
import { toasts } from './toast.svelte';
import { msg } from './language.svelte';

type Right = Schemas['Right'];

/** The session of the user, and the login or confirmation that the page waits for. */
class Who {
  session = $state<Session | null>(null);
  setup = $state<Schemas['Setup'] | null>(null);
  trouble = $state<Failure | null>(null);
  /** The open challenge: a login or a confirmation of the password. */
  asking = $state<'login' | 'confirm' | null>(null);
  private answer: ((ok: boolean) => void) | null = null;
  private pending: Promise<boolean> | null = null;
  private order = new Order();

  get ready(): boolean {
    return this.session !== null && this.setup !== null;
  }

  can(right: Right): boolean {
    return this.session?.rights.includes(right) ?? false;
  }

  async load(): Promise<void> {
    const counts = this.order.ask();
    try {
      const [session, setup] = await Promise.all([get<Session>('/session', { silent: true }), get<Schemas['Setup']>('/setup', { silent: true })]);
      if (!counts()) return;
      this.setup = setup;
      this.accept(session);
      this.trouble = null;
    } catch (thrown) {
      if (counts()) this.trouble = failure(thrown);
    }
  }

  /** A response from before the login does not end the new session. */
  accept(session: Session): void {
    this.order.invalidate();
    this.session = session;
    identify({ csrf: session.csrf ?? '' });
  }

  async login(user: string, password: string): Promise<void> {
    this.accept(await call<Session>('POST', '/session', { user, password }, { silent: true }));
  }

  async confirm(password: string): Promise<void> {
    this.accept(await call<Session>('POST', '/session/confirm', { password }, { silent: true }));
  }

  async logout(): Promise<void> {
    await toasts.flush();
    try {
      await call('DELETE', '/session', undefined, { silent: true });
    } catch (thrown) {
      const f = failure(thrown);
      if (f.status !== 401) toasts.show(msg.core.youAreStillLoggedIn(f.message), { tone: 'bad' });
    }
    await this.load();
  }

  /** Opens one challenge for all requests that wait for it. */
  challenge(kind: 'login' | 'confirm'): Promise<boolean> {
    if (!this.session?.authenticated) return Promise.resolve(false);
    this.pending ??= this.ask(kind).finally(() => {
      this.pending = null;
    });
    return this.pending;
  }

  /** A box after a factory reset has no users: the page shows the setup. */
  private async ask(kind: 'login' | 'confirm'): Promise<boolean> {
    if (kind === 'login') {
      const setup = await get<Schemas['Setup']>('/setup', { silent: true }).catch(() => null);
      if (setup && !setup.claimed && setup.auth === 'accounts') {
        await this.load();
        return false;
      }
    }
    return new Promise((resolve) => {
      this.asking = kind;
      this.answer = resolve;
    });
  }

  /** The session ended while a confirmation was open: a login replaces it. */
  ended(): void {
    if (this.asking) this.asking = 'login';
  }

  answered(ok: boolean): void {
    this.asking = null;
    this.answer?.(ok);
    this.answer = null;
  }
}

export const who = new Who();
identify({ challenge: (kind) => who.challenge(kind) });

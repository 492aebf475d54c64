import { msg } from './language.svelte';

export type Toast = { id: number; text: string; tone: 'good' | 'bad' | 'plain'; action?: { text: string; run: () => void }; seconds: number };

/** Short messages at the edge of the page. Errors stay longest: what must stay is shown where it happened. */
class Toasts {
  list = $state<Toast[]>([]);
  private next = 1;
  /** What was announced and is not done yet. */
  private pending = new Map<number, () => Promise<void>>();

  show(text: string, options: Partial<Omit<Toast, 'id' | 'text'>> = {}): number {
    const id = this.next++;
    const tone = options.tone ?? 'plain';
    const seconds = options.seconds ?? (tone === 'bad' ? 20 : options.action ? 10 : 5);
    this.list = [...this.list.slice(-3), { id, text, tone, action: options.action, seconds }];
    setTimeout(() => this.close(id), seconds * 1000);
    return id;
  }

  close(id: number): void {
    this.list = this.list.filter((t) => t.id !== id);
  }

  /** Does now what was announced: the page is left, or the session ends. */
  async flush(): Promise<void> {
    await Promise.all([...this.pending].map(([id, run]) => { this.close(id); return run(); }));
  }

  /** Does something unless it is undone within some seconds. */
  soon(text: string, run: () => Promise<void>, undone: () => void = () => {}, seconds = 6): void {
    const id = this.show(text, {
      seconds,
      action: { text: msg.core.undo, run: () => { this.pending.delete(id); this.close(id); undone(); } },
    });
    const now = async () => {
      if (this.pending.delete(id)) await run().catch((e: unknown) => { undone(); this.show(e instanceof Error ? e.message : String(e), { tone: 'bad' }); });
    };
    this.pending.set(id, now);
    setTimeout(now, seconds * 1000);
  }
}

export const toasts = new Toasts();

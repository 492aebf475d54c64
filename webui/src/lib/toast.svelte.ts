export type Toast = { id: number; text: string; tone: 'good' | 'bad' | 'plain'; action?: { text: string; run: () => void }; seconds: number };

/** Short messages at the edge of the page. Errors stay until they are closed. */
class Toasts {
  list = $state<Toast[]>([]);
  private next = 1;

  show(text: string, options: Partial<Omit<Toast, 'id' | 'text'>> = {}): number {
    const id = this.next++;
    const tone = options.tone ?? 'plain';
    const seconds = options.seconds ?? (tone === 'bad' ? 0 : options.action ? 10 : 5);
    this.list = [...this.list.slice(-3), { id, text, tone, action: options.action, seconds }];
    if (seconds > 0) setTimeout(() => this.close(id), seconds * 1000);
    return id;
  }

  close(id: number): void {
    this.list = this.list.filter((t) => t.id !== id);
  }

  /** Does something unless it is undone within some seconds. */
  soon(text: string, run: () => Promise<void>, undone: () => void = () => {}, seconds = 6): void {
    let stopped = false;
    const id = this.show(text, {
      seconds,
      action: { text: 'Undo', run: () => { stopped = true; this.close(id); undone(); } },
    });
    setTimeout(() => {
      if (!stopped) run().catch((e: unknown) => { undone(); this.show(e instanceof Error ? e.message : String(e), { tone: 'bad' }); });
    }, seconds * 1000);
  }
}

export const toasts = new Toasts();

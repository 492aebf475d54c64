import { call, Failure } from './api';
import { box } from './box.svelte';
import { toasts } from './toast.svelte';
import { msg } from './language.svelte';

/** A model that is deleted, or one version of it. */
export type Target = { name: string; version?: number };

export const keyOf = (t: Target) => `${t.name}/${t.version ?? ''}`;

/** What these are called: a name, or their number. */
export function nameOf(targets: readonly Target[]): string {
  const [first] = targets;
  if (targets.length !== 1 || !first) return (targets[0]?.version ? msg.selection.nVersions : msg.selection.nModels)(targets.length);
  return first.version ? msg.selection.versionOf(first.version, first.name) : first.name;
}

async function remove(t: Target, dependants: boolean): Promise<void> {
  try {
    await call('DELETE', `/models/${t.name}${t.version ? `/versions/${t.version}` : ''}?dependants=${dependants}`);
  } catch (thrown) {
    if (!(thrown instanceof Failure) || thrown.status !== 404) throw thrown; // it was deleted with another
  }
}

/** Deletes models and versions, unless that is undone within some seconds: until then they are only hidden. */
class Removal {
  private gone = $state<string[]>([]);

  has(target: Target): boolean {
    return this.gone.includes(keyOf(target));
  }

  start(targets: readonly Target[], dependants = false): void {
    const keys = targets.map(keyOf);
    const back = () => { this.gone = this.gone.filter((key) => !keys.includes(key)); };
    this.gone = [...this.gone, ...keys];
    toasts.soon(msg.selection.deleted(nameOf(targets)), async () => {
      let last: Promise<void> = Promise.resolve();
      // All begin at once: a page that is left sends what has begun. Those that depend on one another go in turn.
      const ends = await Promise.allSettled(targets.map((t) => (last = dependants ? last.then(() => remove(t, true)) : remove(t, false))));
      await box.refresh();
      back();
      const failed = ends.find((e) => e.status === 'rejected');
      if (failed) throw failed.reason;
    }, back);
  }
}

export const removal = new Removal();

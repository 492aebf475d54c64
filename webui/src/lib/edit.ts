import { call, get, type Schemas } from './api';
import { go } from './router.svelte';

/** Opens the draft of an ensemble's next version, and begins it with a version's configuration where there is none. */
export async function editEnsemble(name: string, base: number, config: unknown, gone: readonly string[] = []): Promise<void> {
  const there = (await get<Schemas['Draft'][]>('/drafts')).find((d) => d.name === name && !gone.includes(d.id));
  const draft = there ?? (await call<Schemas['Draft']>('POST', '/drafts', { name, config, base }));
  go(`/ensembles/${draft.id}`);
}

import { call, get, send, type Schemas, type Version } from './api';

export type QueuePolicy = { timeout_action: string; default_timeout_microseconds: number; allow_timeout_override: boolean; max_queue_size: number };
export type Batching = { preferred_batch_size: number[]; max_queue_delay_microseconds: number; preserve_ordering: boolean; priority_levels: number; default_priority_level: number; default_queue_policy?: QueuePolicy };
export type Resource = { name: string; global: boolean; count: number };
export type Group = { count: number; kind: string; rate_limiter?: { resources: Resource[]; priority: number } };
export type Direct = { max_queue_delay_microseconds: number; minimum_slot_utilization: number };
export type Oldest = { max_candidate_sequences: number; preferred_batch_size: number[]; max_queue_delay_microseconds: number; preserve_ordering: boolean };
export type Sequences = { max_sequence_idle_microseconds: number; direct?: Direct; oldest?: Oldest };
export type WarmupInput = { data_type: string; dims: number[]; zero_data?: boolean; random_data?: boolean; input_data_file?: string };
export type Warmup = { name: string; batch_size: number; count: number; inputs: Record<string, WarmupInput> };
/** The members of a ModelConfig that the form shows. The others stay as they are. */
export type ModelConfig = {
  max_batch_size: number; // -1: not written
  input: { name: string; data_type: string; dims: number[] }[];
  instance_group: Group[];
  dynamic_batching?: Batching;
  sequence_batching?: Sequences;
  parameters: Record<string, { string_value: string }>;
  model_warmup: Warmup[];
  response_cache?: { enable: boolean };
};
/** Members that replace those of the text; null removes one. */
export type Changes = Partial<Record<keyof ModelConfig, unknown>>;
export type Configuration = Omit<Schemas['VersionConfiguration'], 'declared' | 'config'> & { declared?: ModelConfig; config?: ModelConfig };

const path = (name: string, version: number) => `/models/${name}/versions/${version}/configuration`;

/** The configuration of a version as it is stored. */
export const stored = (name: string, version: number) => get<Configuration>(path(name, version));

/** What a text, or that of the version, comes to with other members in it. Only the box reads and writes texts. */
export const edit = (name: string, version: number, text: string | undefined, set: Changes) => call<Configuration>('POST', path(name, version), { text, set });

/** Stores a text with the other files of a version as the next version. */
export async function save(name: string, version: number, text: string, promote: boolean): Promise<Version> {
  const query = `from=${version}&file=config.pbtxt&promote=${promote}`;
  const response = await send(`/api/v1/models/${name}/versions?${query}`, { method: 'POST', body: new TextEncoder().encode(text), headers: { 'Content-Type': 'application/octet-stream' } });
  return (await response.json()) as Version;
}

/** Resources as Triton's options write them: NAME:COUNT, with :global for one that all devices share. */
export const writeResources = (list: Resource[]): string => list.map((r) => `${r.name}:${r.count}${r.global ? ':global' : ''}`).join(', ');
export const readResources = (text: string): Resource[] =>
  [...text.matchAll(/(?<![^\s,;])([^\s,;:]+):(\d+)(:global)?(?![^\s,;])/g)].map(([, name, count, global]) => ({ name: name!, count: Number(count), global: global !== undefined }));

/** A warm-up request of zeros, or of random numbers, for each input of a model. */
export function warmup(name: string, config: ModelConfig, random: boolean): Warmup {
  const data = random ? { random_data: true } : { zero_data: true };
  const inputs = config.input.map((i) => [i.name, { data_type: i.data_type, dims: i.dims.map((d) => Math.max(1, d)), ...data }] as const);
  return { name, batch_size: Math.max(1, config.max_batch_size), count: 1, inputs: Object.fromEntries(inputs) };
}

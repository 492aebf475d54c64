import { call, get, type Model, type Schemas, type Version } from './api';
import { liveVersion } from './box.svelte';
import { edit, save } from './configuration';
import { base64 } from './tensor';
import { msg } from './language.svelte';

/** A parameter of a step, as the step describes it. */
export type Parameter = { name: string; default: string; description: string };

/** How a parameter is entered. */
export type Field = 'lines' | 'share' | 'choice' | 'text';

export function field(p: Parameter): Field {
  if (/^(labels|alphabet)$/.test(p.name)) return 'lines';
  if (choices(p).length) return 'choice';
  return /\b0 to 1\b/.test(p.description) && p.default !== '' ? 'share' : 'text';
}

/** The words that a parameter may be: "one of crop, letterbox, stretch", or yes and no. */
export function choices(p: Parameter): string[] {
  if (p.default === 'true' || p.default === 'false') return ['true', 'false'];
  return /^one of ([^.:]+)/.exec(p.description)?.[1]?.split(/,\s*/).map((w) => w.trim()) ?? [];
}

/** The parameters in what the box has read in a step's module: `default "0.25": the least score`. Lists come first. */
export function parameters(metadata: Record<string, string> | undefined): Parameter[] {
  const list = Object.entries(metadata ?? {}).flatMap(([key, text]): Parameter[] => {
    const found = /^default ("(?:[^"\\]|\\.)*"): ?([\s\S]*)$/.exec(text);
    return key.startsWith('parameter.') && found ? [{ name: key.slice(10), default: unquoted(found[1]!), description: found[2]! }] : [];
  });
  const order: Field[] = ['lines', 'share', 'choice', 'text'];
  return list.sort((a, b) => order.indexOf(field(a)) - order.indexOf(field(b)) || (a.name < b.name ? -1 : 1));
}

function unquoted(text: string): string {
  try {
    return JSON.parse(text) as string;
  } catch {
    return text.slice(1, -1);
  }
}

/** Parameters that are not empty, as a configuration has them. */
export const written = (values: Record<string, string>) => Object.fromEntries(Object.entries(values).filter(([, v]) => v !== '').map(([k, v]) => [k, { string_value: v }]));

/** Stores a step of the gallery under a name, with parameters, and makes it live. */
export async function install(step: Schemas['ProposalStep']): Promise<void> {
  const { gallery } = await import('virtual:gallery');
  const found = gallery[step.gallery];
  if (!found) throw new Error(msg.tensors.stepNotInBuild(step.gallery));
  const response = await fetch(found.url);
  if (!response.ok) throw new Error(msg.tensors.stepModuleNotRead(step.gallery, response.status));
  const shown = (await get<Schemas['GalleryStep'][]>('/steps/gallery')).find((g) => g.name === step.gallery && g.language === 'assemblyscript');
  const config = JSON.stringify({ backend: 'wasm', parameters: written(step.parameters ?? {}) });
  await call('POST', `/steps/${encodeURIComponent(step.name)}/versions`, { wasm: base64(new Uint8Array(await response.arrayBuffer())), config, source: shown?.source ?? {}, promote: true });
}

/** A step that is on the box: its parameters, and their values. */
export type Installed = { name: string; version: number; parameters: Parameter[]; values: Record<string, string> };

export async function installed(model: Model): Promise<Installed> {
  const version = liveVersion(model) || model.versions.at(-1)!.version;
  const path = `/models/${model.name}/versions/${version}`;
  const [detail, inspection] = await Promise.all([get<Schemas['VersionDetail']>(path), get<Schemas['Inspection']>(`${path}/inspection`)]);
  const set = ((detail.config as { parameters?: Record<string, { string_value?: string }> }).parameters ?? {});
  return { name: model.name, version, parameters: parameters(inspection.metadata), values: Object.fromEntries(Object.entries(set).map(([k, v]) => [k, v.string_value ?? ''])) };
}

/** Stores the next version of a step: the same module with other parameters. */
export async function reconfigure(model: Model, step: Installed): Promise<Version> {
  const { text } = await edit(model.name, step.version, undefined, { parameters: written(step.values) });
  return save(model.name, step.version, text, true);
}

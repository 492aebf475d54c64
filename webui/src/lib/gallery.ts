import { call, get, send, type Model, type Schemas } from './api';
import { liveVersion } from './box.svelte';
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

/** The configuration of a step in which the module describes itself, with parameters that are not empty. */
export function configuration(values: Record<string, string>): string {
  const set = Object.entries(values).filter(([, v]) => v !== '').map(([k, v]) => [k, { string_value: v }]);
  return JSON.stringify({ backend: 'wasm', ...(set.length ? { parameters: Object.fromEntries(set) } : {}) });
}

function deploy(name: string, wasm: Uint8Array, values: Record<string, string>, source: Record<string, string>): Promise<Schemas['Version']> {
  return call<Schemas['Version']>('POST', `/steps/${encodeURIComponent(name)}/versions`, { wasm: base64(wasm), config: configuration(values), source, promote: true });
}

/** Stores a step of the gallery under a name, with parameters, and makes it live. */
export async function install(step: Schemas['ProposalStep']): Promise<void> {
  const { gallery } = await import('virtual:gallery');
  const found = gallery[step.gallery];
  if (!found) throw new Error(msg.tensors.stepNotInBuild(step.gallery));
  const response = await fetch(found.url);
  if (!response.ok) throw new Error(msg.tensors.stepModuleNotRead(step.gallery, response.status));
  const shown = (await get<Schemas['GalleryStep'][]>('/steps/gallery')).find((g) => g.name === step.gallery && g.language === 'assemblyscript');
  await deploy(step.name, new Uint8Array(await response.arrayBuffer()), step.parameters ?? {}, shown?.source ?? {});
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
export async function reconfigure(model: Model, step: Installed): Promise<Schemas['Version']> {
  const files = model.versions.find((v) => v.version === step.version)!.files;
  const read = (path: string) => send(`/api/v1/models/${model.name}/versions/${step.version}/file?path=${encodeURIComponent(path)}`);
  const module = files.find((f) => f.path.endsWith('.wasm'))!;
  const source = await Promise.all(files.filter((f) => f.path.startsWith('source/')).map(async (f) => [f.path.slice(7), await (await read(f.path)).text()]));
  return deploy(model.name, new Uint8Array(await (await read(module.path)).arrayBuffer()), step.values, Object.fromEntries(source));
}

import type { TensorInfo } from './api';
import { msg } from './language.svelte';

/** An input or output of an ensemble, as its configuration declares it. */
export type Border = { name: string; data_type: string; dims: number[]; [more: string]: unknown };
/** A step: its model and the names of its tensors in the ensemble. Unknown members are kept. */
export type Step = { model_name: string; model_version: number; input_map: Record<string, string>; output_map: Record<string, string>; [more: string]: unknown };
/** The configuration of an ensemble. It is immutable: each edit returns a new one. */
export type Config = { platform: string; max_batch_size?: number; input: Border[]; output: Border[]; ensemble_scheduling: { step: Step[]; [more: string]: unknown }; [more: string]: unknown };
/** The signature of a model. */
export type Ports = { inputs: TensorInfo[]; outputs: TensorInfo[] };
/** An end of a connection: a port of a step, or of the ensemble itself (step -1). */
export type End = { step: number; port: string };
/** The port that new inputs and outputs of the ensemble are dragged from and to. */
export const fresh = '+';

export const maxSteps = 256;

export function empty(): Config {
  return { platform: 'ensemble', max_batch_size: 0, input: [], output: [], ensemble_scheduling: { step: [] } };
}

/** A configuration of the box, with absent lists filled in. */
export function complete(config: Record<string, unknown>): Config {
  const scheduling = (config.ensemble_scheduling ?? {}) as { step?: Partial<Step>[] };
  return {
    ...config,
    platform: 'ensemble',
    input: (config.input as Border[]) ?? [],
    output: (config.output as Border[]) ?? [],
    ensemble_scheduling: {
      ...scheduling,
      step: (scheduling.step ?? []).map((s) => ({ ...without(s, 'pinned'), model_name: s.model_name ?? '', model_version: Number(s.model_version ?? -1), input_map: { ...s.input_map }, output_map: { ...s.output_map } })),
    },
  };
}

/** What an author writes of a configuration that the box has completed: without members that are empty. */
export function declaration(config: Record<string, unknown>): Config {
  const c = complete(config);
  const border = ({ name, data_type, dims }: Border): Border => ({ name, data_type, dims });
  const step = ({ model_name, model_version, input_map, output_map }: Step): Step => ({ model_name, model_version, input_map, output_map });
  return { platform: 'ensemble', max_batch_size: c.max_batch_size ?? 0, input: c.input.map(border), output: c.output.map(border), ensemble_scheduling: { step: steps(c).map(step) } };
}

function without<T extends object>(value: T, member: string): T {
  return Object.fromEntries(Object.entries(value).filter(([k]) => k !== member)) as T;
}

export const steps = (c: Config): Step[] => c.ensemble_scheduling.step;
const withSteps = (c: Config, step: Step[]): Config => ({ ...c, ensemble_scheduling: { ...c.ensemble_scheduling, step } });
const change = (c: Config, at: number, s: Partial<Step>): Config => withSteps(c, steps(c).map((old, i) => (i === at ? ({ ...old, ...s } as Step) : old)));

export const wire = (dataType: string): string => dataType.replace('TYPE_', '').replace('STRING', 'BYTES');
const declared = (datatype: string): string => 'TYPE_' + datatype.replace('BYTES', 'STRING');

/** An input or output as clients see it. */
export function info(c: Config, b: Border): TensorInfo {
  const dims = b.dims.map(Number);
  return { name: b.name, datatype: wire(b.data_type), shape: (c.max_batch_size ?? 0) > 0 ? [-1, ...dims] : dims };
}

function border(c: Config, name: string, t: TensorInfo): Border {
  const shape = t.shape ?? [-1];
  return { name, data_type: declared(t.datatype), dims: (c.max_batch_size ?? 0) > 0 ? shape.slice(1) : [...shape] };
}

/** Why a tensor does not fit another signature; empty when it fits. */
export function mismatch(from: TensorInfo, to: TensorInfo): string {
  if (from.datatype !== to.datatype) return msg.tensors.wantsTypeIs(to.name, to.datatype, from.name, from.datatype);
  if (from.shape === null || to.shape === null) return '';
  if (from.shape.length !== to.shape.length) return msg.tensors.wantsDimensionsHas(to.name, to.shape.length, from.name, from.shape.length);
  const at = to.shape.findIndex((d, i) => d >= 0 && from.shape![i]! >= 0 && d !== from.shape![i]);
  return at < 0 ? '' : msg.tensors.wantsInDimensionHas(to.name, to.shape[at]!, at + 1, from.name, from.shape[at]!);
}

/** The port that produces each tensor of the ensemble. */
export function makers(c: Config): Map<string, End> {
  const found = new Map<string, End>(c.input.map((b) => [b.name, { step: -1, port: b.name }]));
  steps(c).forEach((s, i) => Object.entries(s.output_map).forEach(([port, tensor]) => { if (tensor && !found.has(tensor)) found.set(tensor, { step: i, port }); }));
  return found;
}

/** Every connection that the configuration describes. */
export function connections(c: Config): { from: End; to: End; tensor: string }[] {
  const made = makers(c);
  const list: { from: End; to: End; tensor: string }[] = [];
  const add = (tensor: string, to: End) => { const from = made.get(tensor); if (from) list.push({ from, to, tensor }); };
  steps(c).forEach((s, i) => Object.entries(s.input_map).forEach(([port, tensor]) => add(tensor, { step: i, port })));
  c.output.forEach((b) => add(b.name, { step: -1, port: b.name }));
  return list;
}

/** The node of the graph at an end of a connection: a step, or the inputs or outputs of the ensemble. */
export const nodeOf = (e: End, source: boolean): string => (e.step >= 0 ? 's' + e.step : source ? 'in' : 'out');
export const edgeOf = (w: { from: End; to: End }): string => `${nodeOf(w.from, true)}.${w.from.port}>${nodeOf(w.to, false)}.${w.to.port}`;

/** A configuration without names for outputs of steps that nothing reads: they would be a problem that no view shows. */
export function pruned(c: Config): Config {
  const read = new Set([...connections(c).map((w) => w.tensor), ...steps(c).flatMap((s) => compared(s))]);
  if (steps(c).every((s) => Object.values(s.output_map).every((t) => read.has(t)))) return c;
  return withSteps(c, steps(c).map((s) => ({ ...s, output_map: Object.fromEntries(Object.entries(s.output_map).filter(([, t]) => read.has(t))) })));
}

/** The tensors that the condition of a step reads. */
function compared(s: Step): string[] {
  const condition = s.condition as { tensor?: string; default_output?: Record<string, { tensor?: string }> } | undefined;
  return [condition?.tensor, ...Object.values(condition?.default_output ?? {}).map((d) => d.tensor)].filter((t) => t !== undefined);
}

/** Whether a step depends on another, directly or through others. */
function needs(c: Config, step: number, other: number, seen = new Set<number>()): boolean {
  if (step === other) return true;
  if (seen.has(step)) return false;
  seen.add(step);
  return connections(c).some((w) => w.to.step === step && w.from.step >= 0 && needs(c, w.from.step, other, seen));
}

export type Signatures = (step: number) => Ports | undefined;

/** Why two ends cannot be connected; empty when they can. */
export function refusal(c: Config, from: End, to: End, signatures: Signatures): string {
  if (from.step === -1 && to.step === -1) return msg.tensors.inputGoesStraightOutput;
  if (from.step >= 0 && to.step >= 0 && needs(c, from.step, to.step)) return msg.tensors.wouldLeadInCircle;
  const source = from.step === -1 ? (from.port === fresh ? null : borderInfo(c, c.input, from.port)) : signatures(from.step)?.outputs.find((t) => t.name === from.port);
  const target = to.step === -1 ? (to.port === fresh ? null : borderInfo(c, c.output, to.port)) : signatures(to.step)?.inputs.find((t) => t.name === to.port);
  if (!source || !target) return '';
  return fanned(c, to) ? (source.datatype === target.datatype ? '' : mismatch(source, target)) : mismatch(source, target);
}

/** A step that runs once for each row may need another shape than the whole tensor. */
function fanned(c: Config, to: End): boolean {
  return to.step >= 0 && steps(c)[to.step]?.fan_out !== undefined;
}

function borderInfo(c: Config, list: Border[], name: string): TensorInfo | undefined {
  const found = list.find((b) => b.name === name);
  return found && info(c, found);
}

/** An unused name for a tensor of the ensemble. */
export function freeName(c: Config, wanted: string): string {
  const taken = new Set([...makers(c).keys(), ...c.output.map((b) => b.name)]);
  const base = wanted.replace(/[^A-Za-z0-9_.:-]/g, '_') || 'tensor';
  if (!taken.has(base)) return base;
  for (let n = 2; ; n++) if (!taken.has(`${base}_${n}`)) return `${base}_${n}`;
}

/** Connects two ends that `refusal` allows. */
export function connect(c: Config, from: End, to: End, signatures: Signatures): Config {
  if (from.step === -1 && from.port === fresh) {
    const want = signatures(to.step)?.inputs.find((t) => t.name === to.port);
    if (!want) return c;
    const name = freeName(c, to.port);
    return setInput({ ...c, input: [...c.input, border(c, name, want)] }, to, name);
  }
  if (to.step === -1) return toOutput(c, from, to, signatures);
  if (from.step === -1) return setInput(c, to, from.port);
  const [next, tensor] = named(c, from);
  return setInput(next, to, tensor);
}

function setInput(c: Config, to: End, tensor: string): Config {
  return change(c, to.step, { input_map: { ...steps(c)[to.step]!.input_map, [to.port]: tensor } });
}

/** Names the tensor of a step's output if it has no name. */
function named(c: Config, from: End): [Config, string] {
  const has = steps(c)[from.step]!.output_map[from.port];
  if (has) return [c, has];
  const name = freeName(c, from.port);
  return [change(c, from.step, { output_map: { ...steps(c)[from.step]!.output_map, [from.port]: name } }), name];
}

function toOutput(c: Config, from: End, to: End, signatures: Signatures): Config {
  const [next, tensor] = named(c, from);
  const made = signatures(from.step)?.outputs.find((t) => t.name === from.port);
  if (to.port === fresh) return next.output.some((b) => b.name === tensor) || !made ? next : { ...next, output: [...next.output, border(next, tensor, made)] };
  return rename(disconnectTensor(next, to.port, from), tensor, to.port);
}

/** Removes a tensor name from every output except one. */
function disconnectTensor(c: Config, tensor: string, except: End): Config {
  return withSteps(c, steps(c).map((s, i) => ({ ...s, output_map: Object.fromEntries(Object.entries(s.output_map).filter(([port, t]) => t !== tensor || (i === except.step && port === except.port))) })));
}

/** Renames a tensor wherever steps use it. */
export function rename(c: Config, from: string, to: string): Config {
  if (from === to) return c;
  const swap = (map: Record<string, string>) => Object.fromEntries(Object.entries(map).map(([k, v]) => [k, v === from ? to : v]));
  const next = withSteps(c, steps(c).map((s) => ({ ...s, input_map: swap(s.input_map), output_map: swap(s.output_map) })));
  return { ...next, input: next.input.map((b) => (b.name === from ? { ...b, name: to } : b)) };
}

export function disconnect(c: Config, to: End): Config {
  if (to.step === -1) return { ...c, output: c.output.filter((b) => b.name !== to.port) };
  return change(c, to.step, { input_map: without(steps(c)[to.step]!.input_map, to.port) });
}

/** Appends a step of a model without connections. */
export function addStep(c: Config, model: string): Config {
  if (steps(c).length >= maxSteps) throw new Error(msg.tensors.ensembleHasAtMost(maxSteps));
  return withSteps(c, [...steps(c), { model_name: model, model_version: -1, input_map: {}, output_map: {} }]);
}

/** Removes a step, the outputs of the ensemble that it produced and the inputs connected to it. */
export function removeStep(c: Config, at: number): Config {
  const gone = new Set(Object.values(steps(c)[at]!.output_map));
  const left = steps(c).filter((_, i) => i !== at).map((s) => ({ ...s, input_map: Object.fromEntries(Object.entries(s.input_map).filter(([, t]) => !gone.has(t))) }));
  return { ...withSteps(c, left), output: c.output.filter((b) => !gone.has(b.name)) };
}

export function moveStep(c: Config, at: number, by: number): Config {
  const list = [...steps(c)];
  const [one] = list.splice(at, 1);
  list.splice(Math.max(0, Math.min(list.length, at + by)), 0, one!);
  return withSteps(c, list);
}

export function removeInput(c: Config, name: string): Config {
  const next = withSteps(c, steps(c).map((s) => ({ ...s, input_map: Object.fromEntries(Object.entries(s.input_map).filter(([, t]) => t !== name)) })));
  return { ...next, input: next.input.filter((b) => b.name !== name) };
}

/** The tensors that may be connected to a port of a step, and those that may not, with the reason. */
export function candidates(c: Config, to: End, signatures: Signatures): { value: string; from: End; text: string; reason: string }[] {
  const list: { value: string; from: End; text: string; reason: string }[] = [];
  for (const b of c.input) list.push({ value: `-1/${b.name}`, from: { step: -1, port: b.name }, text: msg.tensors.inputNamed(b.name), reason: '' });
  steps(c).forEach((s, i) => signatures(i)?.outputs.forEach((t) => list.push({ value: `${i}/${t.name}`, from: { step: i, port: t.name }, text: msg.tensors.outputOfStep(t.name, i + 1, s.model_name), reason: '' })));
  return list.filter((x) => x.from.step !== to.step || to.step === -1).map((x) => ({ ...x, reason: refusal(c, x.from, to, signatures) }));
}

import { call, Failure, failure, get, type Model, type Schemas, type VersionDetail } from '../../lib/api';
import { addStep, complete, info, moveStep, pruned, removeStep, steps, type Config, type Ports } from '../../lib/ensemble';
import { box, liveVersion } from '../../lib/box.svelte';
import { Order } from '../../lib/order';
import type { Spot } from '../../lib/problems';
import { toasts } from '../../lib/toast.svelte';
import { msg } from '../../lib/language.svelte';

type Draft = Schemas['Draft'];
const quiet = 600;
const mostUndo = 100;

type Places = Record<string, { x: number; y: number }>;
/** A configuration with the positions of its steps. */
type Held = { config: Config; places: Places };

/** Moves positions to new step numbers: `to` returns the new number, -1 for a removed step. */
function renumbered(places: Places, to: (step: number) => number): Places {
  return Object.fromEntries(Object.entries(places).flatMap(([id, at]) => {
    const step = /^s(\d+)$/.exec(id);
    if (!step) return [[id, at]];
    const next = to(Number(step[1]));
    return next < 0 ? [] : [['s' + next, at]];
  }));
}

/** One draft that is being edited: its configuration, its validation and its undo history. */
export class Workspace {
  draft = $state.raw<Draft | null>(null);
  config = $state.raw<Config | null>(null);
  validation = $state.raw<Schemas['Validation'] | null>(null);
  ports = $state.raw(new Map<string, Ports>());
  places = $state.raw<Places>({});
  saving = $state<'saved' | 'waiting' | 'saving' | 'failed'>('saved');
  trouble = $state<Failure | null>(null);
  /** The version that another user has stored since. */
  conflict = $state.raw<Draft | null>(null);
  /** What the views are asked to show. */
  shown = $state.raw<Spot | null>(null);
  private past = $state.raw<Held[]>([]);
  private future = $state.raw<Held[]>([]);
  private timer = 0;
  private writing: Promise<void> = Promise.resolve();
  private judged = new Order();

  constructor(readonly id: string) {}

  get canUndo(): boolean { return this.past.length > 0; }
  get canRedo(): boolean { return this.future.length > 0; }

  async load(): Promise<void> {
    this.trouble = null;
    try {
      const [draft] = await Promise.all([get<Draft>(`/drafts/${this.id}`), this.judge()]);
      this.apply(draft);
    } catch (thrown) {
      this.trouble = failure(thrown);
    }
  }

  private apply(draft: Draft): void {
    this.draft = draft;
    this.config = complete(draft.config as Record<string, unknown>);
    this.places = (draft.layout as { places?: Places } | undefined)?.places ?? {};
    this.conflict = null;
    this.learnAll();
  }

  /** The signature of the model of a step, once it is known. */
  signature = (step: number): Ports | undefined => {
    const s = this.config && steps(this.config)[step];
    return s ? (this.judgedPorts(s.model_name, step) ?? this.ports.get(s.model_name)) : undefined;
  };

  /** What the validation says of a model, at first of the step with that number. */
  private judgedPorts(model: string, step: number): Ports | undefined {
    const known = (s: Schemas['DraftStep'] | undefined) => s?.model === model && s.version > 0;
    const list = this.validation?.steps ?? [];
    return known(list[step]) ? list[step] : list.find(known);
  }

  private learnAll(): void {
    const wanted = new Set(steps(this.config!).map((s) => s.model_name));
    for (const name of wanted) void this.learn(name);
  }

  /** Loads the signature of a model once, unless the validation has it. */
  private async learn(name: string): Promise<void> {
    if (!name || this.ports.has(name) || this.judgedPorts(name, -1) || (box.models && !box.model(name))) return;
    try {
      const model = await get<Model>(`/models/${name}`);
      const version = liveVersion(model) || model.versions.at(-1)?.version;
      if (!version) return;
      const detail = await get<VersionDetail>(`/models/${name}/versions/${version}`);
      this.ports = new Map(this.ports).set(name, { inputs: detail.inputs, outputs: detail.outputs });
    } catch {
      // the validation says that there is no such model
    }
  }

  /** Changes the configuration, and where the steps stand where their numbers change. */
  edit(next: Config, places = this.places): void {
    if (!this.config || next === this.config) return;
    this.change({ config: pruned(next), places });
  }

  /** Moves steps; none: all stand where the layout puts them. */
  arrange(places: Places): void {
    if (this.config && JSON.stringify(places) !== JSON.stringify(this.places)) this.change({ config: this.config, places });
  }

  private change(next: Held): void {
    this.past = [...this.past.slice(1 - mostUndo), { config: this.config!, places: this.places }];
    this.future = [];
    this.set(next);
  }

  /** Adds a step and shows it; reports when the ensemble has too many. */
  add(model: string): void {
    if (!this.config) return;
    try {
      this.edit(addStep(this.config, model));
      this.shown = { node: 's' + (steps(this.config).length - 1), focus: false };
    } catch (thrown) {
      toasts.show(failure(thrown).message, { tone: 'bad' });
    }
  }

  /** Removes steps; the others keep their positions. */
  remove(...gone: number[]): void {
    if (!this.config) return;
    let [config, places] = [this.config, this.places];
    for (const step of gone.sort((a, b) => b - a)) {
      config = removeStep(config, step);
      places = renumbered(places, (n) => (n === step ? -1 : n > step ? n - 1 : n));
    }
    this.edit(config, places);
  }

  /** Swaps a step and its position with its neighbour. */
  shift(step: number, by: 1 | -1): void {
    if (this.config) this.edit(moveStep(this.config, step, by), renumbered(this.places, (n) => (n === step ? step + by : n === step + by ? step : n)));
  }

  undo(): void {
    const last = this.past.at(-1);
    if (!last || !this.config) return;
    this.future = [...this.future, { config: this.config, places: this.places }];
    this.past = this.past.slice(0, -1);
    this.set(last);
  }

  redo(): void {
    const next = this.future.at(-1);
    if (!next || !this.config) return;
    this.past = [...this.past, { config: this.config, places: this.places }];
    this.future = this.future.slice(0, -1);
    this.set(next);
  }

  private set({ config, places }: Held): void {
    this.config = config;
    this.places = places;
    this.learnAll();
    this.soon();
  }

  private soon(): void {
    this.saving = 'waiting';
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.save(), quiet);
  }

  /** Saves the draft; when it returns, the box has stored it. */
  save(): Promise<void> {
    clearTimeout(this.timer);
    this.writing = this.writing.then(() => this.write());
    return this.writing;
  }

  private async write(): Promise<void> {
    if (!this.draft || !this.config || this.saving === 'saved') return;
    this.saving = 'saving';
    const config = this.config;
    try {
      this.draft = await call<Draft>('PUT', `/drafts/${this.id}`, { name: this.draft.name, config, layout: { places: this.places }, revision: this.draft.revision });
      if (this.config === config && this.saving === 'saving') this.saving = 'saved';
      this.trouble = null;
      await this.judge();
    } catch (thrown) {
      this.saving = 'failed';
      const f = failure(thrown);
      if (f.status === 409) this.conflict = await get<Draft>(`/drafts/${this.id}`).catch(() => null);
      if (!this.conflict) this.trouble = f;
    }
  }

  private async judge(): Promise<void> {
    await this.judged.apply(call<Schemas['Validation']>('POST', `/drafts/${this.id}/validation`), (v) => (this.validation = v), () => {});
  }

  /** Resolves a conflict with the stored version or with this one. */
  settle(theirs: boolean): void {
    if (!this.conflict || !this.draft) return;
    if (theirs) {
      this.apply(this.conflict);
      this.saving = 'saved';
      void this.judge();
      return;
    }
    this.draft = { ...this.draft, revision: this.conflict.revision };
    this.conflict = null;
    this.soon();
  }

  get inputs() {
    return this.config ? this.config.input.map((b) => info(this.config!, b)) : [];
  }

  async publish(promote: boolean, notes: string): Promise<Schemas['Version']> {
    await this.save();
    if (this.saving === 'failed') throw this.trouble ?? new Failure(msg.ensembles.draftCouldNotSaved, 0);
    return call<Schemas['Version']>('POST', `/drafts/${this.id}/publish`, { promote, ...(notes ? { notes } : {}) });
  }
}

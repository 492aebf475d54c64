import type { Schemas } from './api';
import { connections, edgeOf, steps, type Config } from './ensemble';
import { msg } from './language.svelte';

type Problem = Schemas['DraftProblem'];
/** A place in an ensemble: a node of its graph, a connection, and an input or output. */
export type Spot = { node: string; edge?: string; port?: string; focus: boolean };

/** A problem in the page's words, in those of the box where the page has none. Steps are counted from 1. */
export function words(p: Problem): string {
  if (p.code) return msg.ensembles.problem[p.code](...((p.names ?? []) as [string, string, string]));
  const text = p.text.replace(/^in ensemble '[^']*', /, '').replace(/^step \d+(?: \(model '[^']*'\))?: /, '');
  const counted = text.replace(/\bstep (\d+) \(model '([^']*)'\)/g, (_, n: string, model: string) => `${Number(n) + 1}. ${model}`);
  return counted.charAt(0).toUpperCase() + counted.slice(1);
}

/** The connections that a problem is about: that to the input it names, else all of its tensor. */
export function wrongEdges(c: Config, p: Problem): ReturnType<typeof connections> {
  const list = p.tensor ? connections(c).filter((w) => w.tensor === p.tensor) : [];
  const read = list.filter((w) => w.to.step === p.step && w.to.port === p.input);
  return read.length ? read : list;
}

/** Where a problem is. */
export function spotOf(c: Config, p: Problem): Spot {
  const wire = wrongEdges(c, p)[0];
  if (wire) return { node: 's' + (wire.to.step < 0 ? wire.from.step : wire.to.step), edge: edgeOf(wire), port: p.input, focus: true };
  if (p.step !== undefined && steps(c)[p.step]) return { node: 's' + p.step, port: p.input ?? p.output, focus: true };
  return { node: p.output || p.code === 'ensemble_output' ? 'out' : 'in', focus: true };
}

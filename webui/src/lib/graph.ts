import type { Schemas } from './api';
import { msg } from './language.svelte';

type Graph = Schemas['Graph'];
type Node = Schemas['GraphNode'];
/** What is drawn as one: an operation, or a group of them. */
export type Shown = { id: string; title: string; about: string; nodes: number[]; group: string };
export type Drawing = { shown: Shown[]; edges: { from: string; to: string; tensor: string }[] };

/** As many as a reader can take in and a browser can move. */
export const mostShown = 300;

const scope = (n: Node): string[] => n.name.split('/').filter(Boolean).slice(0, -1);

/** Draws the operations of a graph, and groups of them by their names where there are too many. Opened groups are drawn apart. */
export function draw(graph: Graph, opened: ReadonlySet<string>): Drawing {
  const groups = graph.nodes.length <= mostShown ? null : grouped(graph.nodes, opened);
  const of = (i: number): string => groups?.[i] ?? '';
  const shown = new Map<string, Shown>();
  const home: string[] = [];
  graph.nodes.forEach((n, i) => {
    const group = of(i);
    const id = group ? 'g:' + group : 'n:' + i;
    home.push(id);
    const entry = shown.get(id);
    if (entry) entry.nodes.push(i);
    else shown.set(id, { id, title: group || n.op, about: group ? '' : (n.name.split('/').at(-1) ?? ''), nodes: [i], group });
  });
  for (const s of shown.values()) if (s.group) s.about = msg.model.nOperations(s.nodes.length);
  const ends: Shown[] = [];
  const maker = new Map<string, string>();
  graph.inputs.forEach((t) => { maker.set(t.name, 'i:' + t.name); ends.push({ id: 'i:' + t.name, title: t.name, about: msg.model.inputEnd, nodes: [], group: '' }); });
  graph.nodes.forEach((n, i) => n.outputs.forEach((t) => { if (t) maker.set(t, home[i]!); }));
  graph.outputs.forEach((t) => ends.push({ id: 'o:' + t.name, title: t.name, about: msg.model.outputEnd, nodes: [], group: '' }));
  return { shown: [...ends, ...shown.values()], edges: wires(graph, home, maker) };
}

function wires(graph: Graph, home: string[], maker: Map<string, string>): Drawing['edges'] {
  const seen = new Map<string, { from: string; to: string; tensor: string }>();
  const add = (tensor: string, to: string) => {
    const from = maker.get(tensor);
    if (from && from !== to && !seen.has(from + '>' + to)) seen.set(from + '>' + to, { from, to, tensor });
  };
  graph.nodes.forEach((n, i) => n.inputs.forEach((t) => add(t, home[i]!)));
  graph.outputs.forEach((t) => add(t.name, 'o:' + t.name));
  return [...seen.values()];
}

/** The group of each node: the first part of its name that is not opened, or a run of neighbours where names say nothing. */
function grouped(nodes: readonly Node[], opened: ReadonlySet<string>): string[] {
  const named = nodes.filter((n) => scope(n).length > 0).length > nodes.length / 2;
  if (!named) {
    const size = Math.ceil(nodes.length / 60);
    return nodes.map((_, i) => {
      const run = Math.floor(i / size);
      const name = msg.model.operationsTo(run * size + 1, Math.min(nodes.length, (run + 1) * size));
      return opened.has(name) ? '' : name;
    });
  }
  return nodes.map((n) => {
    const parts = scope(n);
    for (let depth = 1; depth <= parts.length; depth++) {
      const name = parts.slice(0, depth).join('/');
      if (!opened.has(name)) return name;
    }
    return '';
  });
}

/** The operations whose name, kind or tensors hold a text. */
export function find(graph: Graph, text: string): number[] {
  const wanted = text.toLowerCase();
  if (!wanted) return [];
  return graph.nodes.flatMap((n, i) => ([n.name, n.op, ...n.inputs, ...n.outputs].some((s) => s.toLowerCase().includes(wanted)) ? [i] : []));
}

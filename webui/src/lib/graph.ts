import type { Schemas } from './api';
import { msg } from './language.svelte';

type Graph = Schemas['Graph'];
type Node = Schemas['GraphNode'];
/** What is drawn as one: an operation, or a group of them. */
export type Shown = { id: string; title: string; about: string; nodes: number[]; group: string };
export type Drawing = { shown: Shown[]; edges: { from: string; to: string; tensor: string }[] };

/** As many as a reader can take in and a browser can move. */
export const mostShown = 300;
/** Operations of one name that are drawn apart at once, and into how many runs more of them are put. */
const mostTogether = 100;
const runs = 60;

const scope = (n: Node): string[] => n.name.split('/').filter(Boolean).slice(0, -1);

/** Draws the operations of a graph, and groups of them by their names where there are too many. Opened groups are drawn apart. */
export function draw(graph: Graph, opened: ReadonlySet<string>): Drawing {
  const all = groupsOf(graph);
  const groups = all?.map((names) => names.find((name) => !opened.has(name)) ?? '');
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

/**
 * The groups that each node is in, from the outermost to the innermost: the parts of its name, and a run of neighbours where names
 * say nothing or leave too many together. Null where the graph is small enough to be drawn whole.
 */
export function groupsOf(graph: Graph): string[][] | null {
  const { nodes } = graph;
  if (nodes.length <= mostShown) return null;
  const named = nodes.filter((n) => scope(n).length > 0).length > nodes.length / 2;
  const scopes = nodes.map((n) => (named ? scope(n).map((_, i, parts) => parts.slice(0, i + 1).join('/')) : []));
  const together = new Map<string, number[]>();
  scopes.forEach((names, i) => {
    const last = names.at(-1) ?? '';
    const list = together.get(last);
    if (list) list.push(i);
    else together.set(last, [i]);
  });
  for (const [last, list] of together) {
    if (list.length <= mostTogether) continue;
    const size = Math.ceil(list.length / runs);
    list.forEach((node, i) => {
      const run = Math.floor(i / size);
      const range = msg.model.operationsTo(run * size + 1, Math.min(list.length, (run + 1) * size));
      scopes[node]!.push(last ? `${last}, ${range}` : range);
    });
  }
  return scopes;
}

/** What is left open when a group is closed: not what is inside of it. */
export const closed = (opened: ReadonlySet<string>, group: string): Set<string> => new Set([...opened].filter((name) => name !== group && !name.startsWith(group + '/') && !name.startsWith(group + ', ')));

/** The operations whose name, kind or tensors hold a text. */
export function find(graph: Graph, text: string): number[] {
  const wanted = text.toLowerCase();
  if (!wanted) return [];
  return graph.nodes.flatMap((n, i) => ([n.name, n.op, ...n.inputs, ...n.outputs].some((s) => s.toLowerCase().includes(wanted)) ? [i] : []));
}

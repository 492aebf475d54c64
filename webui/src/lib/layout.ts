import dagre from '@dagrejs/dagre';

export type Place = { id: string; width: number; height: number };

/** Places nodes in ranks along their connections; the answer holds the upper left corner of each. */
export function arrange(nodes: readonly Place[], edges: readonly { from: string; to: string }[], across: boolean): Map<string, { x: number; y: number }> {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: across ? 'LR' : 'TB', nodesep: across ? 30 : 22, ranksep: across ? 50 : 44, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const n of nodes) graph.setNode(n.id, { width: n.width, height: n.height });
  for (const e of edges) if (e.from !== e.to) graph.setEdge(e.from, e.to);
  dagre.layout(graph);
  return new Map(nodes.map((n) => { const at = graph.node(n.id); return [n.id, { x: at.x - n.width / 2, y: at.y - n.height / 2 }]; }));
}

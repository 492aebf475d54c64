package catalog

import (
	"context"
	"maps"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// maxGraphNodes bounds the nodes of a graph that is shown.
const maxGraphNodes = 20_000

// Graph returns the structure of a version.
func (c *Catalog) Graph(_ context.Context, id edgewise.ModelID) (*admin.Graph, error) {
	v, err := c.stored(id)
	if err != nil {
		return nil, err
	}
	if ensemble.Is(v.Model) {
		return ensembleGraph(v.Model), nil
	}
	return c.onnxGraph(v)
}

func (c *Catalog) onnxGraph(v *edgewise.Version) (*admin.Graph, error) {
	dir, err := c.config.Store.Dir(v.ID)
	if err != nil {
		return nil, err
	}
	f, err := c.config.ONNXFile(dir, v.Model)
	if err != nil {
		return nil, err
	}
	g := &admin.Graph{
		Kind: "onnx", Inputs: notNil(f.Inputs), Outputs: notNil(f.Outputs), Nodes: []admin.GraphNode{},
		Initializers: []edgewise.TensorInfo{},
	}
	g.Truncated = len(f.Graph.Nodes) > maxGraphNodes
	for _, n := range f.Graph.Nodes[:min(len(f.Graph.Nodes), maxGraphNodes)] {
		g.Nodes = append(g.Nodes, admin.GraphNode{
			Name: n.Name, Op: n.Op, Domain: n.Domain, Inputs: notNil(n.Inputs),
			Outputs: notNil(n.Outputs),
		})
	}
	for _, t := range f.Graph.Initializers[:min(len(f.Graph.Initializers), maxGraphNodes)] {
		g.Initializers = append(g.Initializers, edgewise.TensorInfo{
			Name: t.Name, Datatype: t.Type,
			Shape: append(edgewise.Shape{}, t.Shape...),
		})
	}
	return g, nil
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func ensembleGraph(m *edgewise.Model) *admin.Graph {
	declared := ensemble.Inspection(m)
	g := &admin.Graph{
		Kind: ensemble.Platform, Inputs: notNil(declared.Inputs), Outputs: notNil(declared.Outputs),
		Nodes: []admin.GraphNode{},
	}
	for _, s := range m.EnsembleScheduling.Step {
		n := admin.GraphNode{
			Name: s.ModelName, Op: s.ModelName, Inputs: sortedValues(s.InputMap),
			Outputs: sortedValues(s.OutputMap),
		}
		if s.Pinned != nil {
			n.Version = s.Pinned.Version
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g
}

// sortedValues lists what a map leads to, in the order of its keys.
func sortedValues(m map[string]string) []string {
	list := []string{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[key])
	}
	return list
}

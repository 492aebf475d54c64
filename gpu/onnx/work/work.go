// Package work counts what one run of an ONNX model computes and moves, from its graph and the shapes of a request:
// floating-point operations, and bytes of weights, inputs, outputs and large intermediate tensors.
//
// The shapes are followed through the graph, with the numbers of the small tensors that say shapes. Nothing is run. A
// multiply and its add are two operations; every element that another operator makes is one. What the runtime fuses,
// rearranges or leaves out is not known here. An operator whose work or whose shapes are not known is counted by its name.
package work

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
)

// Work is what one run of a model computes and moves.
type Work struct {
	Operations float64 // on numbers of any type
	Integer    float64 // of them, on integers of 8 bits
	Weights    int64   // bytes of weights that are read
	Inputs     int64   // bytes
	Outputs    int64   // bytes
	Large      int64   // bytes that are written and read of intermediate tensors larger than the bound
	Largest    int64   // bytes of the largest intermediate tensor
	Nodes      int     // that run: no constants, and of a condition one branch
	Unknown    map[string]int
	Assumed    int // conditions whose outcome is not known: the branch with more operations is counted
}

// Bytes are those that move between memory and cores when nothing stays in a cache but what is small.
func (w *Work) Bytes() int64 { return w.Weights + w.Inputs + w.Outputs + w.Large }

// Set is the bytes that one run touches: they stay in a cache that is larger.
func (w *Work) Set() int64 { return w.Weights + w.Inputs + w.Outputs + w.Largest }

// Input is an input of a request.
type Input struct {
	Shape  edgewise.Shape
	Values []float64 // of a small tensor, such as one that says a shape; nil: not known
}

// maxValues bounds the numbers of a tensor that are followed.
const maxValues = 64

// Limits returns the bounds for a file that is read to count its work.
func Limits() onnxfile.Limits {
	l := onnxfile.DefaultLimits()
	l.Values = maxValues
	return l
}

// Of counts the work of one run with these inputs, by name. Intermediate tensors of more than large bytes are counted as
// moved. An input that is missing has the shape of the file, each open dimension of it 1. The time is in proportion to the
// nodes of the file, which its Limits bound; ctx ends it. Errors: Canceled or Deadline.
func Of(ctx context.Context, f *onnxfile.File, inputs map[string]Input, large int64) (*Work, error) {
	w := &Work{Unknown: map[string]int{}}
	e := &evaluation{ctx: ctx, work: w, large: large, rules: rules()}
	top := &scope{values: map[string]*value{}}
	for _, t := range f.Inputs {
		v := inputOf(t, inputs)
		top.values[t.Name] = v
		w.Inputs += v.bytes()
	}
	e.graph(f.Graph, top)
	if err := ctx.Err(); err != nil {
		return nil, edgewise.Errorf("work.Of", edgewise.KindOf(err), "%w", err)
	}
	for _, name := range f.Graph.Outputs {
		if v := top.find(name); v != nil {
			w.Outputs += v.bytes()
			if v.made && v.bytes() > large {
				w.Large -= v.bytes() // it is written once
			}
		}
	}
	return w, nil
}

// inputOf is the value of an input: as the request has it, or else as the file says.
func inputOf(t edgewise.TensorInfo, inputs map[string]Input) *value {
	v := &value{size: int64(max(t.Type.Size(), 1))}
	if in, ok := inputs[t.Name]; ok && (t.Shape == nil || len(in.Shape) == len(t.Shape)) {
		v.shape, v.known, v.values = in.Shape, true, in.Values
		return v
	}
	if t.Shape == nil {
		return v
	}
	v.known, v.shape = true, make(edgewise.Shape, len(t.Shape))
	for i, d := range t.Shape {
		v.shape[i] = max(d, 1)
	}
	return v
}

// evaluation is the counting of one run.
type evaluation struct {
	ctx   context.Context
	work  *Work
	large int64
	rules map[string]rule
}

// scope holds the values of a graph; a graph inside a node sees those around it.
type scope struct {
	outer  *scope
	values map[string]*value
}

func (s *scope) find(name string) *value {
	for ; s != nil; s = s.outer {
		if v := s.values[name]; v != nil {
			return v
		}
	}
	return nil
}

// graph counts the nodes of a graph.
func (e *evaluation) graph(g *onnxfile.Graph, s *scope) {
	for _, t := range g.Initializers {
		if s.values[t.Name] != nil && s.outer == nil && len(t.Shape) == 0 {
			continue
		}
		elements, _ := t.Shape.Elements()
		v := &value{shape: t.Shape, known: true, constant: true, values: t.Values, size: 1}
		if elements > 0 {
			v.size = max(t.Bytes/elements, 1)
		}
		s.values[t.Name] = v
	}
	for i := range g.Nodes {
		if e.ctx.Err() != nil {
			return
		}
		e.node(&g.Nodes[i], s)
	}
}

// node counts one node, and gives its outputs their shapes.
func (e *evaluation) node(n *onnxfile.Node, s *scope) {
	c := &call{evaluation: e, Node: n, scope: s, in: make([]*value, len(n.Inputs)), out: make([]*value, len(n.Outputs))}
	constant := true
	for i, name := range n.Inputs {
		c.in[i] = s.find(name)
		if name != "" && (c.in[i] == nil || !c.in[i].constant) {
			constant = false
		}
	}
	constant = constant && len(n.Graphs) == 0
	for i := range c.out {
		c.out[i] = &value{size: c.inherited(), constant: constant}
	}
	c.constant = constant
	c.run()
	for i, name := range n.Outputs {
		if name != "" {
			s.values[name] = c.out[i]
		}
	}
}

// run finds the shapes of the outputs, and counts unless the runtime computes the node once, when the model is loaded.
func (c *call) run() {
	rule := c.ruleOf(c.Op)
	before := *c.work
	known := rule != nil && rule(c)
	if c.constant {
		unknown := c.work.Unknown
		*c.work = before
		c.work.Unknown = unknown
		return
	}
	if len(c.Graphs) > 0 {
		return // counted inside
	}
	if !known {
		c.work.Unknown[c.Op]++
	}
	if !views[c.Op] {
		c.work.Nodes++
		c.moved()
	}
}

// moved counts the weights that a node reads, and what it writes and reads of large tensors.
func (c *call) moved() {
	for _, v := range c.in {
		switch {
		case v == nil:
		case v.constant && c.Op == "Gather":
			c.work.Weights += c.out[0].bytes()
		case v.constant:
			c.work.Weights += v.bytes()
		case v.bytes() > c.large && v.made:
			c.work.Large += v.bytes()
		}
	}
	for _, v := range c.out {
		v.made = true
		c.work.Largest = max(c.work.Largest, v.bytes())
		if v.bytes() > c.large {
			c.work.Large += v.bytes()
		}
	}
}

package onnxfile

import "github.com/edgewise-ai/edgewise"

// Graph is a graph of a model, or one that a node runs (If, Loop, Scan), for display. Names may be empty except those
// of initializers.
type Graph struct {
	Name         string
	Inputs       []string // in a model's own graph, initializers with a default for an input are listed here too
	Outputs      []string
	Nodes        []Node // in the order of the file
	Initializers []Initializer
}

// Node is one operation.
type Node struct {
	Name    string
	Op      string
	Domain  string   // "ai.onnx" is never written as ""
	Inputs  []string // "" where an optional one is left out
	Outputs []string
	Graphs  []*Graph // the graphs in its attributes
	// GraphNames are the names of the attributes that Graphs stand in; none where Limits.Values is 0.
	GraphNames []string
	// Attributes are those with numbers, a text or a tensor, in the order of the file; none where Limits.Values is 0.
	Attributes []Attribute
}

// Initializer is a tensor with constant elements.
type Initializer struct {
	Name     string
	Type     string // the name ONNX gives it, such as "float" or "int4"
	Shape    edgewise.Shape
	Bytes    int64     // of its elements; for strings, of their text
	External *External // nil when the elements are in the model file
	Values   []float64 // its elements, where they are at most Limits.Values numbers of the file; nil otherwise
}

// graphReader reads one graph.
type graphReader struct {
	*walker
	graph           *Graph
	depth           int
	inputs, outputs []value
	names           map[string]bool // of initializers
}

// graph reads a graph that ends at end and is nested in depth others, with the declarations of its inputs and outputs.
func (w *walker) graph(end int64, depth int) (*graphReader, error) {
	r := &graphReader{walker: w, graph: &Graph{}, depth: depth, names: map[string]bool{}}
	if depth > w.Depth {
		return r, tooLarge("more than %d graphs inside graphs", w.Depth)
	}
	err := w.each(&graphMessage, end, r.field)
	if err == nil {
		r.graph.Inputs, err = valueNames(r.inputs, "input")
	}
	if err == nil {
		r.graph.Outputs, err = valueNames(r.outputs, "output")
	}
	return r, within(err, "graph %.64q", r.graph.Name)
}

// field reads a field of GraphProto.
func (r *graphReader) field(f field) (err error) {
	switch f.number {
	case 1: // node
		var n Node
		if n, err = r.node(f.end, r.depth); err == nil {
			r.graph.Nodes = append(r.graph.Nodes, n)
		}
	case 2: // name
		r.graph.Name, err = r.name(f, "graph name")
	case 5: // initializer
		t, elements, size, e := r.tensor(f.end, "")
		err = e
		if err == nil {
			err = r.initializer(t, t.dims, elements, size)
		}
	case 11: // input
		err = r.declare(f.end, &r.inputs)
	case 12: // output
		err = r.declare(f.end, &r.outputs)
	case 13: // value_info, which is checked and not kept
		_, err = r.value(f.end)
	case 14: // quantization_annotation
		err = r.annotation(f.end)
	case 15: // sparse_initializer
		t, elements, size, e := r.sparse(f.end, "sparse initializer")
		err = e
		if err == nil {
			err = r.initializer(t.tensor, t.dense, elements, size)
		}
	case 16: // metadata_props
		err = r.pass(&entryMessage, f.end)
	}
	return err
}

// initializer adds an initializer, whose name must be new in its graph.
func (r *graphReader) initializer(t tensor, dims edgewise.Shape, elements, size int64) error {
	switch {
	case t.name == "":
		return invalid("initializer %d has no name", len(r.graph.Initializers))
	case r.names[t.name]:
		return invalid("two initializers are named %.64q", t.name)
	}
	r.names[t.name] = true
	r.parameters += elements
	r.graph.Initializers = append(r.graph.Initializers, Initializer{
		Name: t.name, Type: t.element.name, Shape: dims, Bytes: size, External: t.at, Values: t.numbers(elements),
	})
	return nil
}

// annotation checks a TensorAnnotation, which names the tensors that quantize another one, and keeps nothing of it.
func (r *graphReader) annotation(end int64) error {
	return r.each(&annotationMessage, end, func(f field) error {
		if f.number == 2 {
			return r.pass(&entryMessage, f.end)
		}
		return nil
	})
}

func (r *graphReader) declare(end int64, into *[]value) error {
	v, err := r.value(end)
	*into = append(*into, v)
	return err
}

// valueNames returns the names of values, which must differ.
func valueNames(values []value, what string) ([]string, error) {
	seen := make(map[string]bool, len(values))
	names := make([]string, 0, len(values))
	for _, v := range values {
		if v.name != "" && seen[v.name] {
			return nil, invalid("two %ss are named %.64q", what, v.name)
		}
		seen[v.name] = true
		names = append(names, v.name)
	}
	return names, nil
}

package onnxfile

import "cmp"

// The operator domains that are served without a definition in the file.
const (
	domainONNX      = "ai.onnx" // written "" in most files
	domainML        = "ai.onnx.ml"
	domainMicrosoft = "com.microsoft"
)

// operator names an operator: what a node runs, or what a function defines.
type operator struct{ domain, name, overload string }

// String returns the operator as "domain.Type".
func (o operator) String() string { return o.domain + "." + o.name }

// builtin tells whether the runtime brings the operator with it.
func (o operator) builtin() bool {
	return o.domain == domainONNX || o.domain == domainML || o.domain == domainMicrosoft
}

// training tells whether a domain trains models, which an appliance does not.
func training(domain string) bool {
	return domain == "ai.onnx.training" || domain == "ai.onnx.preview.training"
}

// node reads a node of a graph that stands in depth others.
func (w *walker) node(end int64, depth int) (n Node, err error) {
	if err := count(&w.nodes, w.Nodes, "nodes"); err != nil {
		return n, err
	}
	index := w.body.nodes
	w.body.nodes++
	var op operator
	err = w.each(&nodeMessage, end, func(f field) error { return w.nodeField(f, &n, &op, depth) })
	op.domain = cmp.Or(op.domain, domainONNX)
	n.Op, n.Domain = op.name, op.domain
	if err == nil {
		err = w.operator(op, n.Name)
	}
	return n, within(err, "node %d %.64q (%.64s)", index, n.Name, op)
}

func (w *walker) nodeField(f field, n *Node, op *operator, depth int) (err error) {
	switch f.number {
	case 1:
		err = w.appendName(f, &n.Inputs)
	case 2:
		err = w.appendName(f, &n.Outputs)
	case 3:
		n.Name, err = w.name(f, "node name")
	case 4:
		op.name, err = w.word(f, "operator")
	case 5:
		err = w.attribute(f.end, n, depth)
	case 7:
		op.domain, err = w.word(f, "domain")
	case 8:
		op.overload, err = w.word(f, "overload")
	case 9:
		err = w.pass(&entryMessage, f.end)
	case 10:
		err = unsupported("it is laid out over several devices (device_configurations), which is not supported")
	}
	return err
}

func (w *walker) appendName(f field, into *[]string) error {
	s, err := w.name(f, "value name")
	*into = append(*into, s)
	return err
}

// operator refuses operators that are not served, and notes the others for the check of functions at the end.
func (w *walker) operator(op operator, node string) error {
	switch {
	case op.name == "":
		return invalid("it has no operator")
	case op.name == "EPContext":
		return unsupported("it carries a compiled model of one device (EPContext): upload the model it was compiled from")
	case training(op.domain):
		return unsupported("domain %q is for training, which is not supported", op.domain)
	}
	w.body.calls[op]++
	w.operators[op.String()]++
	if !op.builtin() && !w.requested[op] {
		w.requested[op] = true
		w.requests = append(w.requests, request{op, node})
	}
	return nil
}

// attribute reads an attribute of n. Tensors and graphs are checked like all others; other values are skipped where none
// are kept.
func (w *walker) attribute(end int64, n *Node, depth int) error {
	if err := count(&w.attributes, w.Attributes, "attributes"); err != nil {
		return err
	}
	var a Attribute
	graphs := len(n.Graphs)
	err := w.each(&attributeMessage, end, func(f field) (err error) {
		switch f.number {
		case 1:
			a.Name, err = w.word(f, "attribute name")
		case 2, 3, 4, 7, 8:
			err = w.attributeValue(f, &a)
		case 5, 10:
			t, elements, _, e := w.tensor(f.end, "tensor attribute")
			w.parameters += elements
			a.Type, a.Shape, a.Values, err = t.element.name, t.dims, t.numbers(elements), e
		case 6, 11:
			r, e := w.graph(f.end, depth+1)
			n.Graphs = append(n.Graphs, r.graph)
			err = e
		case 14, 15:
			var v value
			err = w.valueType(f.end, &v, 0)
		case 22, 23:
			_, elements, _, e := w.sparse(f.end, "sparse tensor attribute")
			w.parameters += elements
			err = e
		case 20:
			_, err = f.int32("attribute type")
		}
		return err
	})
	for range n.Graphs[graphs:] { // the name may stand behind them
		if w.Limits.Values > 0 {
			n.GraphNames = append(n.GraphNames, a.Name)
		}
	}
	if err == nil && w.Limits.Values > 0 && (a.Values != nil || a.Text != "" || a.Type != "") {
		if err = add(&w.kept, int64(8*len(a.Values)+len(a.Text))+KeptOverhead, w.Kept, "bytes of names and metadata"); err == nil {
			n.Attributes = append(n.Attributes, a)
		}
	}
	return within(err, "attribute %.64q", a.Name)
}

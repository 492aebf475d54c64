package onnxfile

import "cmp"

// Function is an operator that the file defines by nodes.
type Function struct {
	Domain, Name, Overload string
	Inputs, Outputs        []string
	Nodes                  []Node
}

func (f *Function) operator() operator { return operator{f.Domain, f.Name, f.Overload} }

// body counts what is in the model's graph or in a function, subgraphs included.
type body struct {
	nodes int
	calls map[operator]int64
}

func newBody() *body { return &body{calls: map[operator]int64{}} }

// function reads a function of the model.
func (w *walker) function(end int64) error {
	if len(w.functions) >= w.Functions {
		return tooLarge("more than %d functions", w.Functions)
	}
	var fn Function
	imports := 0
	outer := w.body
	w.body = newBody()
	defer func() { w.body = outer }()
	err := w.each(&functionMessage, end, func(f field) (err error) {
		switch f.number {
		case 1:
			fn.Name, err = w.word(f, "function name")
		case 4:
			err = w.appendName(f, &fn.Inputs)
		case 5:
			err = w.appendName(f, &fn.Outputs)
		case 7:
			var n Node
			if n, err = w.node(f.end, 0); err == nil {
				fn.Nodes = append(fn.Nodes, n)
			}
		case 9:
			if err = count(&imports, w.Imports, "operator sets imported"); err == nil {
				_, _, err = w.operatorSet(f.end)
			}
		case 10:
			fn.Domain, err = w.word(f, "domain")
		case 11:
			var n Node
			err = w.attribute(f.end, &n, 0)
		case 12:
			_, err = w.value(f.end)
		case 13:
			fn.Overload, err = w.word(f, "overload")
		case 14:
			err = w.pass(&entryMessage, f.end)
		}
		return err
	})
	fn.Domain = cmp.Or(fn.Domain, domainONNX)
	op := fn.operator()
	switch _, twice := w.bodies[op]; {
	case err != nil:
	case fn.Name == "":
		err = invalid("it has no name")
	case twice:
		err = invalid("it is defined twice")
	}
	w.bodies[op] = w.body
	w.functions = append(w.functions, fn)
	return within(err, "function %.64s", op)
}

// request is the first node that asked for an operator the runtime does not bring with it.
type request struct {
	operator
	node string
}

// checkCalls refuses operators that nobody defines, functions that call themselves, and a model that grows beyond the
// limit when its functions are put in place of their calls, which is what the runtime does with them.
func (w *walker) checkCalls() error {
	for _, r := range w.requests {
		if _, ok := w.bodies[r.operator]; !ok {
			return unsupported("node %.64q: operator %.64s: domain %.64q is not served: "+
				"want ai.onnx, ai.onnx.ml, com.microsoft or a function of the file", r.node, r.operator, r.domain)
		}
	}
	e := expansion{walker: w, done: map[*body]extent{}, open: map[*body]bool{}}
	for i := range w.functions {
		op := w.functions[i].operator()
		if _, err := e.of(w.bodies[op]); err != nil {
			return within(err, "function %.64s", op)
		}
	}
	_, err := e.of(w.body)
	return err
}

// expansion computes how large a body becomes when all calls are replaced.
type expansion struct {
	*walker
	done map[*body]extent
	open map[*body]bool // those being computed; meeting one again is a cycle
}

// extent is how many nodes a body has in the end, and through how many functions the deepest call goes.
type extent struct {
	nodes int64
	calls int
}

func (e *expansion) of(b *body) (extent, error) {
	if x, ok := e.done[b]; ok {
		return x, nil
	}
	e.open[b] = true
	defer delete(e.open, b)
	var total extent
	for op, calls := range b.calls {
		one, err := e.ofCall(op)
		if err != nil {
			return total, err
		}
		if one.nodes > e.Expanded || calls > (e.Expanded-total.nodes)/one.nodes {
			return total, tooLarge("more than %d nodes once the functions are put in place of their calls", e.Expanded)
		}
		total.nodes += calls * one.nodes
		total.calls = max(total.calls, one.calls)
	}
	e.done[b] = total
	return total, nil
}

// ofCall returns the extent of a node: itself, and the function it calls.
func (e *expansion) ofCall(op operator) (extent, error) {
	inner, ok := e.bodies[op]
	if !ok {
		return extent{nodes: 1}, nil
	}
	if e.open[inner] {
		return extent{}, invalid("function %.64s calls itself", op)
	}
	x, err := e.of(inner)
	if err != nil {
		return x, err
	}
	if x.calls >= e.CallDepth {
		return x, tooLarge("more than %d functions calling each other", e.CallDepth)
	}
	return extent{nodes: x.nodes + 1, calls: x.calls + 1}, nil
}

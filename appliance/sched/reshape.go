package sched

import "github.com/edgewise-ai/edgewise"

// reshape leads from one declared shape of a tensor to another one with as many elements. Sizes that stand for -1 are
// carried over in order. A nil reshape changes nothing.
type reshape struct {
	batched  bool // dimension 0 is the batch and is kept
	from, to edgewise.Shape
}

func newReshape(m *edgewise.Model, dims edgewise.Shape, r *edgewise.Reshape) *reshape {
	if r == nil {
		return nil
	}
	return &reshape{batched: m.MaxBatchSize > 0, from: dims, to: r.Shape}
}

// inverse leads back: outputs go from the backend's shape to the client's.
func (r *reshape) inverse() *reshape {
	if r == nil {
		return nil
	}
	return &reshape{batched: r.batched, from: r.to, to: r.from}
}

// apply returns the shape on the other side. A shape that does not fit from is returned as it is: the check that
// follows names it.
func (r *reshape) apply(shape edgewise.Shape) edgewise.Shape {
	if r == nil {
		return shape
	}
	var out edgewise.Shape
	rest := shape
	if r.batched && len(shape) > 0 {
		out, rest = append(out, shape[0]), shape[1:]
	}
	if !r.from.Accepts(rest) {
		return shape
	}
	var variable []int64
	for i, d := range r.from {
		if d < 0 {
			variable = append(variable, rest[i])
		}
	}
	for _, d := range r.to {
		if d < 0 {
			d, variable = variable[0], variable[1:]
		}
		out = append(out, d)
	}
	return out
}

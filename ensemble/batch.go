package ensemble

import "github.com/edgewise-ai/edgewise"

// An ensemble may connect models that batch with models that do not. Where a tensor goes from one kind to the other its
// shape is adapted as in Triton: a batch dimension of 1 is put in front, or taken away, when the shape fits only then.

// adaption is how a tensor's shape changes on its way to its reader.
type adaption struct {
	kind adaptionKind
	dims edgewise.Shape // that the reader declares, without a batch dimension
}

type adaptionKind int

const (
	asItIs     adaptionKind = iota
	withBatch               // the reader batches, the maker does not
	outOfBatch              // the maker batches, the reader does not
)

func adaptionOf(made, read bool, dims edgewise.Shape) adaption {
	switch {
	case made == read:
		return adaption{}
	case read:
		return adaption{withBatch, dims}
	}
	return adaption{outOfBatch, dims}
}

// of returns the shape that the reader sees. One that does not fit either way stays as it is: the reader refuses it.
func (a adaption) of(shape edgewise.Shape) edgewise.Shape {
	switch {
	case a.kind == withBatch && compatible(a.dims, shape):
		return append(edgewise.Shape{1}, shape...)
	case a.kind == outOfBatch && len(shape) > 0 && shape[0] == 1 && !compatible(a.dims, shape):
		return shape[1:]
	}
	return shape
}

// adapt finds out which tensors begin with a batch dimension, and what that means for their readers.
func (g *graph) adapt() {
	whole := g.model.MaxBatchSize > 0
	for i := range g.tensors {
		t := &g.tensors[i]
		t.batches = whole
		if t.producer >= 0 {
			t.batches = g.steps[t.producer].batches(whole)
		}
	}
	for i := range g.steps {
		s := &g.steps[i]
		for k := range s.inputs {
			in := &s.inputs[k]
			if s.model == nil || s.fan != nil {
				continue
			}
			if declared := inputOf(s.model, in.name); declared != nil {
				in.adaption = adaptionOf(g.tensors[in.tensor].batches, s.batches(whole), declared.Dims)
			}
		}
	}
	for _, out := range g.model.Output {
		t := &g.tensors[g.index[out.Name]]
		t.adaption = adaptionOf(t.batches, whole, within(out.Dims, out.Reshape))
	}
}

// batches tells whether the tensors of a step begin with a batch dimension; whole: those of the ensemble do. A fan-out
// takes the ensemble's.
func (s *step) batches(whole bool) bool {
	if s.model == nil || s.fan != nil {
		return whole
	}
	return s.model.MaxBatchSize > 0
}

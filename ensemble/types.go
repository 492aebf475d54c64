package ensemble

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// claim is what one side says of a tensor.
type claim struct {
	who   string
	data  edgewise.DataType
	shape edgewise.Shape // with the batch dimension
	batch bool           // there is one
	fixed bool           // the shape is not adapted
}

// types checks that a step and whoever makes its inputs or declares its outputs agree on type and shape.
func (c *checker) types(i int) {
	s := &c.g.steps[i]
	if s.model == nil {
		return
	}
	for _, in := range s.inputs {
		declared := inputOf(s.model, in.name)
		made := c.maker(in.tensor)
		if declared == nil || made == nil {
			continue
		}
		c.agree(in.tensor, *made, claim{
			who: s.label + " takes it as input '" + in.name + "'", data: declared.DataType, shape: s.inputShape(in, declared.Dims),
			batch: s.batches(c.m.MaxBatchSize > 0), fixed: s.fan != nil,
		})
	}
	for _, out := range s.outputs {
		t := &c.g.tensors[out.tensor]
		own := outputOf(c.m, t.name)
		made := c.maker(out.tensor)
		if own == nil || made == nil || t.producer != i {
			continue
		}
		c.agree(out.tensor, *made, c.own("the ensemble declares it", own.DataType, within(own.Dims, own.Reshape)))
	}
}

// maker is what the producer of a tensor says of it, nil when that is not known.
func (c *checker) maker(t int) *claim {
	name, producer := c.g.tensors[t].name, c.g.tensors[t].producer
	if producer == input {
		in := inputOf(c.m, name)
		made := c.own("the ensemble takes it", in.DataType, within(in.Dims, in.Reshape))
		return &made
	}
	if producer == noStep || c.g.steps[producer].model == nil {
		return nil
	}
	s := &c.g.steps[producer]
	at := slices.IndexFunc(s.outputs, func(o mapping) bool { return o.tensor == t })
	out := outputOf(s.model, s.outputs[at].name)
	if out == nil {
		return nil
	}
	return &claim{
		who: s.label + " makes it as output '" + out.Name + "'", data: out.DataType, shape: s.outputShape(out.Dims),
		batch: s.batches(c.m.MaxBatchSize > 0),
	}
}

// own is what the ensemble itself says of a tensor.
func (c *checker) own(who string, data edgewise.DataType, dims edgewise.Shape) claim {
	return claim{who: who, data: data, shape: batched(c.m, dims), batch: c.m.MaxBatchSize > 0}
}

// within returns the dims that a tensor of the ensemble has inside of it: its reshape, where it declares one.
func within(dims edgewise.Shape, r *edgewise.Reshape) edgewise.Shape {
	if r == nil {
		return dims
	}
	return r.Shape
}

// dims is the shape without the batch dimension.
func (c claim) dims() edgewise.Shape {
	if c.batch && len(c.shape) > 0 {
		return c.shape[1:]
	}
	return c.shape
}

// adapts tells whether the shapes agree but for the batch dimension, which one side has and the other has not.
func (c claim) adapts(other claim) bool {
	return c.batch != other.batch && !c.fixed && !other.fixed && compatible(c.dims(), other.dims())
}

// agree reports that two sides contradict each other: other types, another number of dimensions, or another size where
// both say one.
func (c *checker) agree(t int, made, used claim) {
	name := c.g.tensors[t].name
	if made.data != used.data {
		c.problem("tensor '%s': %s of type %v, but %s of type %v", name, made.who, made.data, used.who, used.data)
		return
	}
	if !compatible(made.shape, used.shape) && !made.adapts(used) {
		c.problem("tensor '%s': %s of shape %v, but %s of shape %v", name, made.who, made.shape, used.who, used.shape)
	}
}

// compatible tells whether one tensor could have both shapes.
func compatible(a, b edgewise.Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] >= 0 && b[i] >= 0 && a[i] != b[i] {
			return false
		}
	}
	return true
}

func batched(m *edgewise.Model, dims edgewise.Shape) edgewise.Shape {
	if m.MaxBatchSize == 0 {
		return dims
	}
	return append(edgewise.Shape{-1}, dims...)
}

// inputShape is the shape of the tensor that a step takes as an input with those dims.
func (s *step) inputShape(in mapping, dims edgewise.Shape) edgewise.Shape {
	switch {
	case s.fan != nil && in.cut:
		return s.fan.shape(dims)
	case s.fan != nil && s.fan.batched: // whole, beside each row
		return append(edgewise.Shape{1}, dims...)
	}
	return batched(s.model, dims)
}

// outputShape is the shape of the tensor that a step makes of an output with those dims.
func (s *step) outputShape(dims edgewise.Shape) edgewise.Shape {
	if s.fan != nil {
		return s.fan.shape(dims)
	}
	return batched(s.model, dims)
}

// shape puts the leading dimensions, of any size, before those of a row.
func (f *fan) shape(row edgewise.Shape) edgewise.Shape {
	shape := make(edgewise.Shape, f.leading, f.leading+len(row))
	for i := range shape {
		shape[i] = -1
	}
	return append(shape, row...)
}

// batching checks that a step takes the batches that the ensemble takes. A model that does not batch takes them as they
// are, where the shapes fit.
func (c *checker) batching(i int) {
	s := &c.g.steps[i]
	if s.model == nil || s.fan != nil || c.m.MaxBatchSize == 0 {
		return
	}
	if most := s.model.MaxBatchSize; most > 0 && most < c.m.MaxBatchSize {
		c.problem("max_batch_size is %d, but %s takes at most %d", c.m.MaxBatchSize, s.label, s.model.MaxBatchSize)
	}
}

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

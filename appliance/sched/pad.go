package sched

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

const (
	// paddingSpread bounds how many times larger a dimension may be than that of another request of the batch, when no
	// sizes are configured: the padding is computed, too, and takes memory.
	paddingSpread = 2
	// MaxPaddedBytes bounds one input of a request after padding.
	MaxPaddedBytes = 1 << 30
)

// Padding says how requests of different sizes run together: their variable dimensions are filled up to a common size,
// and the outputs are cut back wherever the same dimension appears. It is made by NewPadding.
type Padding struct {
	sizes   []int64 // that dimensions are filled up to, ascending; empty: the largest of the batch
	names   []string
	inputs  map[string]padded
	outputs map[string]padded
}

// padded is one tensor with variable dimensions.
type padded struct {
	dims    []int  // for each dimension behind the batch: the index of its name, -1 when it is fixed
	element []byte // what inputs are filled up with
	size    int64  // bytes of an element
}

// measure sets the sizes of j's named dimensions, which must be the same wherever a name appears, and the sizes that j
// is filled up to whatever it runs with. Error: Invalid.
func (p *Padding) measure(j *job, c *Checker) error {
	if p == nil {
		return nil
	}
	j.plain = append(j.plain[:0], j.inputs...)
	j.sizes = slices.Grow(j.sizes[:0], len(p.names))[:len(p.names)]
	clear(j.sizes)
	for i := range j.plain {
		in := &j.plain[i]
		for d, name := range p.inputs[in.Name].dims {
			size := in.Shape[d+1]
			switch {
			case name < 0:
			case size < 1:
				return c.Invalid(
					"input '%s' for model '%s': dimension '%s' has size %d, and the model's padding needs 1 or more",
					in.Name, c.model.Name, p.names[name], size,
				)
			case j.sizes[name] == 0:
				j.sizes[name] = size
			case j.sizes[name] != size:
				return c.Invalid(
					"input '%s' for model '%s': dimension '%s' has size %d here and %d in another input, and the "+
						"model's padding needs one size",
					in.Name, c.model.Name, p.names[name], size, j.sizes[name],
				)
			}
		}
	}
	j.bucket = append(j.bucket[:0], p.bucket(j.sizes)...)
	return p.bounded(j, c)
}

// bounded refuses what would be filled up beyond all bounds. Error: TooLarge.
func (p *Padding) bounded(j *job, c *Checker) error {
	for i := range j.plain {
		in := &j.plain[i]
		rule, ok := p.inputs[in.Name]
		if !ok || len(j.bucket) == 0 {
			continue
		}
		if n, ok := rule.resized(in.Shape, j.bucket).Elements(); !ok || n > MaxPaddedBytes/rule.size {
			return edgewise.Errorf(
				"sched.measure", edgewise.TooLarge,
				"input '%s' for model '%s' of shape %v takes more than %d bytes when it is padded", in.Name,
				c.model.Name, in.Shape, MaxPaddedBytes,
			)
		}
	}
	return nil
}

// bucket is the sizes that a request is filled up to at least; requests with the same bucket run together. A size above
// the largest configured one stays as it is.
func (p *Padding) bucket(sizes []int64) []int64 {
	if len(p.sizes) == 0 {
		return nil
	}
	bucket := make([]int64, len(sizes))
	for i, n := range sizes {
		bucket[i] = n
		if at, _ := slices.BinarySearch(p.sizes, n); at < len(p.sizes) && n > 0 {
			bucket[i] = p.sizes[at]
		}
	}
	return bucket
}

// fill makes the inputs of jobs, which are to run together, the same size. Inputs that have it already stay where they
// are; others are copied once more. It begins with what the clients sent, whatever the jobs ran with before.
func (p *Padding) fill(jobs []*job) {
	if p == nil {
		return
	}
	target := p.target(jobs)
	for _, j := range jobs {
		j.target = append(j.target[:0], target...)
		for i := range j.plain {
			j.inputs[i] = p.filled(j.plain[i], target)
		}
	}
}

// target is the size that each named dimension gets in a batch.
func (p *Padding) target(jobs []*job) []int64 {
	target := make([]int64, len(p.names))
	for _, j := range jobs {
		for i, n := range j.sizes {
			target[i] = max(target[i], n)
		}
		for i, n := range j.bucket {
			target[i] = max(target[i], n)
		}
	}
	return target
}

func (p *Padding) filled(in edgewise.Tensor, target []int64) edgewise.Tensor {
	rule, ok := p.inputs[in.Name]
	if !ok {
		return in
	}
	shape := rule.resized(in.Shape, target)
	if shape.Equal(in.Shape) {
		return in
	}
	n, _ := shape.Elements()
	size := int(n * rule.size)
	data := AlignedBytes(size)[:size]
	for at := 0; at < size; at += len(rule.element) {
		copy(data[at:], rule.element)
	}
	block{data, shape}.copy(block{in.Data, in.Shape}, in.Shape, rule.size)
	return edgewise.Tensor{Name: in.Name, Type: in.Type, Shape: shape, Data: data}
}

// resized is a shape with other sizes of its named dimensions.
func (r padded) resized(shape edgewise.Shape, sizes []int64) edgewise.Shape {
	out := slices.Clone(shape)
	for d, name := range r.dims {
		if name >= 0 {
			out[d+1] = sizes[name]
		}
	}
	return out
}

// cut takes what was filled in out of the outputs of jobs, which have been run together. Error: Internal, when an
// output has not the sizes that its dimensions' names promise.
func (p *Padding) cut(jobs []*job) error {
	if p == nil {
		return nil
	}
	for _, j := range jobs {
		if slices.Equal(j.sizes, j.target) {
			continue
		}
		outputs := slices.Clone(j.outputs)
		for i := range outputs {
			out, rule := &outputs[i], p.outputs[outputs[i].Name]
			if len(rule.dims) == 0 {
				continue
			}
			if len(out.Shape) != len(rule.dims)+1 || !rule.resized(out.Shape, j.target).Equal(out.Shape) {
				return edgewise.Errorf(
					"sched.cut", edgewise.Internal,
					"output %q of inputs that were padded has shape %v: its dimensions are not those of the inputs "+
						"with the same names",
					out.Name, out.Shape,
				)
			}
			shape := rule.resized(out.Shape, j.sizes)
			n, _ := shape.Elements()
			data := make([]byte, n*rule.size)
			block{data, shape}.copy(block{out.Data, out.Shape}, shape, rule.size)
			out.Shape, out.Data = shape, data
		}
		j.outputs = outputs
	}
	return nil
}

// block is dense, row-major memory of a shape.
type block struct {
	data  []byte
	shape edgewise.Shape
}

// copy copies the corner of from that begins at zero and has the given sizes, into the same place of b.
func (b block) copy(from block, sizes edgewise.Shape, element int64) {
	if len(sizes) == 0 {
		copy(b.data[:element], from.data)
		return
	}
	to, _ := b.shape[1:].Elements()
	step, _ := from.shape[1:].Elements()
	to, step = to*element, step*element
	if len(sizes) == 1 || b.shape[1:].Equal(from.shape[1:]) {
		copy(b.data[:sizes[0]*to], from.data[:sizes[0]*step])
		return
	}
	for i := range sizes[0] {
		block{b.data[i*to:], b.shape[1:]}.copy(block{from.data[i*step:], from.shape[1:]}, sizes[1:], element)
	}
}

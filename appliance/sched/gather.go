package sched

import (
	"slices"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// alignment of a batch's tensors: a cache line, and the widest vector register.
const alignment = 64

// maxKept is how many bytes of borrowed memory a lane keeps for an input between batches. The instance has only so much
// to lend, to all lanes together.
const maxKept = 1 << 20

// gatherer makes the input tensors of batches. It belongs to one lane: its memory is read until the run returns and used
// again for the next batch, so a lane keeps as much as its largest batch took, and of borrowed memory at most maxKept.
type gatherer struct {
	allocator edgewise.Allocator     // where the memory comes from; nil: from here
	lender    edgewise.BodyAllocator // where requests may be made; nil: nowhere
	inputs    []edgewise.Tensor
	buffers   []buffer // one for each input
}

// buffer is memory whose capacity is used again.
type buffer struct {
	data []byte
	free func() // nil when there is nothing to give back
}

// newGatherer makes a gatherer in memory from which an instance takes inputs without a copy, if it lends such memory.
func newGatherer(i edgewise.Instance) gatherer {
	allocator, _ := i.(edgewise.Allocator)
	lender, _ := i.(edgewise.BodyAllocator)
	return gatherer{allocator: allocator, lender: lender}
}

// needed tells whether the inputs of jobs have to be gathered: those of one are passed on as they are, unless the
// instance would copy them then.
func (g *gatherer) needed(jobs []*job) bool {
	return len(jobs) > 1 || g.allocator != nil && !g.lent(jobs[0].inputs)
}

// lent tells whether inputs were made in memory of the instance. When some are not, the instance copies those.
func (g *gatherer) lent(inputs []edgewise.Tensor) bool {
	return g.lender != nil && slices.ContainsFunc(inputs, func(t edgewise.Tensor) bool { return g.lender.OwnsBody(t.Data) })
}

// gather concatenates the inputs of jobs, which fit together, on dimension 0. That is the one copy of a batch. Framed
// bytes are concatenated as they are. The result is valid until the next call. Error: Exhausted.
func (g *gatherer) gather(jobs []*job, total int) ([]edgewise.Tensor, error) {
	first := jobs[0].inputs
	g.inputs = slices.Grow(g.inputs[:0], len(first))[:len(first)]
	for len(g.buffers) < len(first) {
		g.buffers = append(g.buffers, buffer{})
	}
	for i := range first {
		shape := append(g.inputs[i].Shape[:0], first[i].Shape...)
		if len(jobs) > 1 {
			shape[0] = int64(total)
		}
		data, err := g.concat(i, jobs)
		if err != nil {
			return nil, err
		}
		g.inputs[i] = edgewise.Tensor{Name: first[i].Name, Type: first[i].Type, Shape: shape, Data: data}
	}
	return g.inputs, nil
}

func (g *gatherer) concat(i int, jobs []*job) ([]byte, error) {
	size := 0
	for _, j := range jobs {
		size += len(j.inputs[i].Data)
	}
	if b := &g.buffers[i]; cap(b.data) < size {
		if err := g.replace(b, size); err != nil {
			return nil, err
		}
	}
	data := g.buffers[i].data[:0]
	for _, j := range jobs {
		data = append(data, j.inputs[i].Data...)
	}
	return data, nil
}

// replace gets a buffer for at least size bytes.
func (g *gatherer) replace(b *buffer, size int) (err error) {
	b.release()
	if g.allocator == nil {
		b.data = alignedBytes(size)
		return nil
	}
	b.data, b.free, err = g.allocator.Alloc(size + size/4)
	return err
}

func (b *buffer) release() {
	if b.free != nil {
		b.free()
	}
	*b = buffer{}
}

// settle gives back what is not to be kept after a run.
func (g *gatherer) settle() {
	for i := range g.buffers {
		if b := &g.buffers[i]; b.free != nil && cap(b.data) > maxKept {
			b.release()
		}
	}
}

// release gives all memory back.
func (g *gatherer) release() {
	for i := range g.buffers {
		g.buffers[i].release()
	}
}

// alignedBytes returns a buffer for at least size bytes, which begins at a multiple of alignment.
func alignedBytes(size int) []byte {
	memory := make([]byte, size+size/4+alignment)
	skip := -int(uintptr(unsafe.Pointer(&memory[0]))) & (alignment - 1)
	return memory[skip:]
}

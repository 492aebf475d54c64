package sched

import (
	"slices"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// alignment of a batch's tensors: a cache line, and the widest vector register.
const alignment = 64

// gatherer makes the input tensors of batches. It belongs to one lane: its memory is read until the run returns and used
// again for the next batch, so a lane keeps as much as its largest batch took.
type gatherer struct {
	inputs []edgewise.Tensor
	data   [][]byte // one buffer for each input, aligned
}

// gather concatenates the inputs of jobs, which fit together, on dimension 0. That is the one copy of a batch. Framed
// bytes are concatenated as they are. The result is valid until the next call.
func (g *gatherer) gather(jobs []*job, total int) []edgewise.Tensor {
	first := jobs[0].inputs
	g.inputs = slices.Grow(g.inputs[:0], len(first))[:len(first)]
	for len(g.data) < len(first) {
		g.data = append(g.data, nil)
	}
	for i := range first {
		shape := append(g.inputs[i].Shape[:0], first[i].Shape...)
		shape[0] = int64(total)
		g.inputs[i] = edgewise.Tensor{Name: first[i].Name, Type: first[i].Type, Shape: shape, Data: g.concat(i, jobs)}
	}
	return g.inputs
}

func (g *gatherer) concat(i int, jobs []*job) []byte {
	size := 0
	for _, j := range jobs {
		size += len(j.inputs[i].Data)
	}
	if cap(g.data[i]) < size {
		g.data[i] = alignedBytes(size)
	}
	data := g.data[i][:0]
	for _, j := range jobs {
		data = append(data, j.inputs[i].Data...)
	}
	return data
}

// alignedBytes returns a buffer for at least size bytes, which begins at a multiple of alignment.
func alignedBytes(size int) []byte {
	memory := make([]byte, size+size/4+alignment)
	skip := -int(uintptr(unsafe.Pointer(&memory[0]))) & (alignment - 1)
	return memory[skip:]
}

package ort

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/edgewise-ai/edgewise"
)

// form is what a run made of one output. size is 0 where no memory can be handed over: strings, and tensors without
// elements.
type form struct {
	kind  edgewise.DataType
	shape edgewise.Shape
	size  int64 // bytes
}

// maxForms bounds for how many combinations of input shapes and wanted outputs a session remembers the outputs' shapes.
// Others are made in the runtime's memory.
const maxForms = 256

// forms remembers the outputs of earlier runs by signature. The zero value is empty.
type forms struct {
	mu    sync.RWMutex
	known map[string][]form // nil: runs of this signature differ in their outputs' shapes
}

// of returns the outputs to be expected; nil when they are not known.
func (f *forms) of(signature []byte) []form {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.known[string(signature)]
}

// learn remembers the outputs of the first run of a signature.
func (f *forms) learn(signature []byte, outputs []edgewise.Tensor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.known[string(signature)]; known || len(f.known) == maxForms {
		return
	}
	list := make([]form, len(outputs))
	for i := range outputs {
		list[i] = form{outputs[i].Type, outputs[i].Shape, int64(len(outputs[i].Data))}
		if outputs[i].Type == edgewise.Bytes {
			list[i].size = 0
		}
	}
	if f.known == nil {
		f.known = map[string][]form{}
	}
	f.known[string(signature)] = list
}

// giveUp notes that what is known of a signature is not true of all its runs.
func (f *forms) giveUp(signature []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[string(signature)] = nil
}

// appendSignature appends what decides the shapes of the outputs of most models: the inputs' shapes, and which outputs
// are wanted.
func appendSignature(to []byte, in []edgewise.Tensor, want []string) []byte {
	for i := range in {
		to = appendText(to, in[i].Name)
		to = append(to, byte(len(in[i].Shape)))
		for _, d := range in[i].Shape {
			to = binary.LittleEndian.AppendUint64(to, uint64(d))
		}
	}
	for _, name := range want {
		to = appendText(to, name)
	}
	return to
}

func appendText(to []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint32(to, uint32(len(text))), text...)
}

// placeAlignment is what memory for an output must be aligned to.
const placeAlignment = 64

// destination is memory for one output. data is nil where there is none.
type destination struct {
	form
	data []byte
}

// RunInto is Run with memory for the outputs, as edgewise.Placer describes it. Their sizes are those of the last run with
// inputs of the same shapes. Where a model makes outputs of another size this time, the run is repeated without that
// memory, and the session does not ask for any again for inputs of these shapes; the runtime itself refuses to write a
// tensor into memory of another shape.
func (s *Session) RunInto(ctx context.Context, in []edgewise.Tensor, want []string, place func(sizes []int64) [][]byte) (*edgewise.Result, error) {
	var buffer [256]byte
	signature := appendSignature(buffer[:0], in, want)
	into := destinations(s.forms.of(signature), place)
	result, err := s.run(ctx, in, want, into)
	switch {
	case err == nil && into == nil:
		s.forms.learn(signature, result.Outputs)
		return result, nil
	case err == nil || into == nil || ctx.Err() != nil:
		return result, err
	}
	result, err = s.run(ctx, in, want, nil)
	if err == nil {
		s.forms.giveUp(signature)
	}
	return result, err
}

// destinations asks for memory for outputs of known forms. It returns nil when there is none.
func destinations(known []form, place func(sizes []int64) [][]byte) []destination {
	if !slices.ContainsFunc(known, func(f form) bool { return f.size > 0 }) {
		return nil
	}
	sizes := make([]int64, len(known))
	for i := range known {
		sizes[i] = known[i].size
	}
	memory := place(sizes)
	into := make([]destination, len(known))
	for i := range min(len(memory), len(into)) {
		if sizes[i] > 0 && int64(len(memory[i])) == sizes[i] && uintptr(unsafe.Pointer(&memory[i][0]))%placeAlignment == 0 {
			into[i] = destination{known[i], memory[i]}
		}
	}
	return into
}

// bind tells the call where to make outputs.
func (c *call) bind(pins *runtime.Pinner, into []destination) {
	for i := range into {
		c.outputs[i].data = nil
		if into[i].data != nil {
			t := edgewise.Tensor{Type: into[i].kind, Shape: into[i].shape, Data: into[i].data}
			describe(&c.outputs[i], pins, &t)
		}
	}
}

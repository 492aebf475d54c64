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

// form is what a run made of one output. size is 0 where no memory is handed over: strings, small tensors, and outputs
// that the runtime does not write to such memory.
type form struct {
	kind  edgewise.DataType
	shape edgewise.Shape
	size  int64 // bytes
}

const (
	// maxForms bounds for how many combinations of input shapes and wanted outputs a session remembers the outputs'
	// shapes. Others are made in the runtime's memory.
	maxForms = 256
	// minPlaced is the bytes of the smallest output for which memory is handed over: a smaller one is copied sooner.
	minPlaced = 2 * markBytes
)

// signature is what is known of runs with the same input shapes and wanted outputs.
type signature struct {
	forms []form // nil: such runs differ in their outputs' shapes
	tried bool   // a run has written every byte of the memory that it was handed
}

// forms remembers the outputs of earlier runs by signature. The zero value is empty.
type forms struct {
	mu    sync.RWMutex
	known map[string]signature
}

// of returns the outputs to be expected, none when they are not known.
func (f *forms) of(key []byte) signature {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.known[string(key)]
}

// learn remembers the outputs of the first run of a signature.
func (f *forms) learn(key []byte, want []string, outputs []edgewise.Tensor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.known[string(key)]; known || len(f.known) == maxForms {
		return
	}
	list := make([]form, len(outputs))
	for i := range outputs {
		list[i] = form{outputs[i].Type, outputs[i].Shape, int64(len(outputs[i].Data))}
		if outputs[i].Type == edgewise.Bytes || list[i].size < minPlaced || slices.Contains(want[:i], want[i]) {
			list[i].size = 0
		}
	}
	if f.known == nil {
		f.known = map[string]signature{}
	}
	f.known[string(key)] = signature{forms: list}
}

// giveUp notes that what is known of a signature is not true of all its runs.
func (f *forms) giveUp(key []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[string(key)] = signature{}
}

// approve notes that a run has written all the memory that it was handed.
func (f *forms) approve(key []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.known[string(key)]
	known.tried = true
	f.known[string(key)] = known
}

// exclude notes that the runtime does not write to memory for some outputs.
func (f *forms) exclude(key []byte, unwritten []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.known[string(key)]
	known.forms = slices.Clone(known.forms) // others read the old one
	for _, i := range unwritten {
		if i < len(known.forms) {
			known.forms[i].size = 0
		}
	}
	f.known[string(key)] = known
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

// Run computes the outputs named in want. The inputs' bytes are read in place until Run returns; outputs that have no
// memory of options.Place are ONNX Runtime's own memory until Result.Free. When ctx ends first, the run is told to
// terminate, which takes as long as the operator that is running. Errors: Invalid, Deadline, Canceled, Internal.
//
// The sizes that Place is asked for are those of the last run with inputs of the same shapes. Where a model makes
// outputs of another size this time, the run is repeated without that memory, and the session does not ask for any
// again for inputs of these shapes; the runtime itself refuses to write a tensor into memory of another shape.
//
// The runtime does not write every output to the memory that it is handed: an output that is an input of the graph
// stays where that input is. So the memory is marked before each run, and filled with marks before the first one of a
// signature. Where a mark is left, the run is repeated without the memory, and the session asks for none for that
// output again.
func (s *Session) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	if options.Place == nil {
		return s.run(ctx, in, want, nil)
	}
	var buffer [256]byte
	key := appendSignature(buffer[:0], in, want)
	known := s.forms.of(key)
	into := destinations(known.forms, options.Place)
	if into == nil {
		result, err := s.run(ctx, in, want, nil)
		if err == nil {
			s.forms.learn(key, want, result.Outputs)
		}
		return result, err
	}
	s.marks.put(into, !known.tried)
	result, err := s.run(ctx, in, want, into)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err == nil {
		unwritten := s.marks.left(into, !known.tried)
		if len(unwritten) == 0 {
			if !known.tried && complete(known.forms, into) {
				s.forms.approve(key)
			}
			return result, nil
		}
		result.Free()
		s.forms.exclude(key, unwritten)
		return s.run(ctx, in, want, nil)
	}
	result, err = s.run(ctx, in, want, nil)
	if err == nil {
		s.forms.giveUp(key)
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

// complete tells whether there is memory for every output for which some was asked.
func complete(known []form, into []destination) bool {
	for i := range known {
		if known[i].size > 0 && into[i].data == nil {
			return false
		}
	}
	return true
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

package kserve

import (
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/aligned"
)

// Inference is an inference request with the shared memory of its tensors and the form of each output that the client
// wants. All forms of the protocol, JSON, binary and gRPC, are read into it.
type Inference struct {
	edgewise.Request
	Answers []Answer // one for each of Outputs, in the same order
	Shared  []Place  // one for each of Inputs: where its bytes are, if not in the message
}

// Answer says how the client wants one output.
type Answer struct {
	Name           string
	Binary         bool // after the JSON part instead of in it
	Classification int  // this many best elements with their labels instead of the tensor; 0: the tensor
	Shared         Place
}

// Place is a part of a shared memory region. The zero value is none.
type Place struct {
	Region       string
	Offset, Size int64 // bytes
}

// Set tells whether p is a place.
func (p Place) Set() bool { return p.Region != "" }

// Answer returns how the client wants an output: as a tensor in the message when the client does not name it.
func (r *Inference) Answer(output string) Answer {
	for _, a := range r.Answers {
		if a.Name == output {
			return a
		}
	}
	return Answer{Name: output}
}

// AddInput adds an input, whose bytes are at a place when that is set. Errors: Invalid for a name that is there
// already.
func (r *Inference) AddInput(t edgewise.Tensor, at Place) error { return r.add("input", t, at) }

// add is AddInput; what is "input" or "output", for messages: clients decode the outputs of an answer into it, too.
func (r *Inference) add(what string, t edgewise.Tensor, at Place) error {
	if slices.ContainsFunc(r.Inputs, func(before edgewise.Tensor) bool { return before.Name == t.Name }) {
		return TensorErrorf(t.Name, "%s '%s' already exists in request", what, t.Name)
	}
	r.Inputs, r.Shared = append(r.Inputs, t), append(r.Shared, at)
	return nil
}

// AddOutput adds an output that the client names. Errors: Invalid for a name that is there already, and for classes in
// shared memory.
func (r *Inference) AddOutput(a Answer) error {
	switch {
	case a.Classification > 0 && a.Shared.Set():
		return TensorErrorf(a.Name, "shared memory can't be used with classification: output '%s'", a.Name)
	case slices.Contains(r.Outputs, a.Name):
		return TensorErrorf(a.Name, "output '%s' already exists in request", a.Name)
	}
	r.Outputs, r.Answers = append(r.Outputs, a.Name), append(r.Answers, a)
	return nil
}

// InferRequest is an inference request decoded from a REST body.
//
// The caller of the Decoder calls Release once the answer has been encoded. Until then the body must not change:
// tensors sent in binary form alias it, at any alignment. Tensors sent as JSON are in memory of the request, 64-byte
// aligned. Nothing of the request may be read after Release, except names and other strings.
type InferRequest struct {
	Inference
	BinaryOutput bool    // the form of outputs when Outputs is empty, that is when the client named none
	Classes      Classes // for outputs wanted as classes; set before the answer is encoded

	decoder *Decoder
	memory  arena
	dims    []int64 // memory of the shapes of Inputs
	binary  []int64 // for each of Inputs: its bytes after the JSON part, -1 when it is not there
	scratch []byte
	reader  tensors
	names   map[string]string // of tensors seen before, so that most requests allocate none
}

const (
	namesKept    = 256 // names remembered by one pooled request
	nameSizeKept = 128 // bytes of the longest of them
)

// Release gives the request's memory back, for later requests. It is called once; a second call does nothing as long
// as the request has not been handed out again.
func (r *InferRequest) Release() {
	d := r.decoder
	if d == nil {
		return
	}
	clear(r.Inputs)
	clear(r.Answers)
	clear(r.Outputs)
	clear(r.Shared)
	r.Request = edgewise.Request{Inputs: r.Inputs[:0], Outputs: r.Outputs[:0]}
	r.Answers, r.Shared, r.dims, r.binary = r.Answers[:0], r.Shared[:0], r.dims[:0], r.binary[:0]
	r.BinaryOutput, r.Classes, r.decoder = false, Classes{}, nil
	if cap(r.scratch) > arenaKept {
		r.scratch = nil
	}
	r.memory.reset()
	d.free.Put(r)
}

// intern returns name as a string that is independent of the body.
func (r *InferRequest) intern(name []byte) string {
	if s, ok := r.names[string(name)]; ok {
		return s
	}
	s := string(name)
	if len(s) > nameSizeKept {
		return s
	}
	if len(r.names) >= namesKept {
		clear(r.names)
	}
	r.names[s] = s
	return s
}

// Decoder decodes inference requests within fixed limits and reuses their memory. What it keeps for reuse is at most
// the memory of the requests that were in progress at one time, 4 MiB of tensors each, and is given up under memory
// pressure. It is safe for concurrent use.
type Decoder struct {
	lim  Limits
	free sync.Pool // of *InferRequest
}

// NewDecoder returns a Decoder; zero fields of lim stand for their defaults.
func NewDecoder(lim Limits) *Decoder { return &Decoder{lim: lim.WithDefaults()} }

func (d *Decoder) request(model edgewise.ModelID) *InferRequest {
	r, ok := d.free.Get().(*InferRequest)
	if !ok {
		r = &InferRequest{names: make(map[string]string)}
	}
	r.decoder = d
	r.Model = model
	return r
}

const (
	alignment  = 64      // bytes; the runtimes' vector instructions are fastest so
	arenaKept  = 4 << 20 // bytes of a block that is kept for the next request
	arenaFirst = 1 << 10 // bytes of the smallest block
)

// arena allocates the memory of the tensors of one request, each 64-byte aligned, and frees it in one step.
type arena struct {
	block []byte
	used  int
	total int // handed out since the last reset, rounded up
	want  int // what the request before needed: the next block has room for as much
}

// alloc returns n bytes of undefined content.
func (a *arena) alloc(n int) []byte {
	room := (n + alignment - 1) &^ (alignment - 1)
	a.total += room
	if a.used+room > len(a.block) {
		a.block = aligned.Bytes(max(room, a.want, arenaFirst), alignment)
		a.used = 0
	}
	data := a.block[a.used : a.used+n : a.used+n]
	a.used += room
	return data
}

// reset makes all memory free again. A block over arenaKept is left to the garbage collector.
func (a *arena) reset() {
	a.want = min(a.total, arenaKept)
	a.used, a.total = 0, 0
	if len(a.block) > arenaKept || len(a.block) < a.want {
		a.block = nil
	}
}

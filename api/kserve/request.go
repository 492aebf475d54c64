package kserve

import (
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// InferRequest is a decoded inference request, together with what the client said about the form of the answer.
//
// Whoever decoded it calls Release once the answer has been encoded. Until then the body it was decoded from must stay
// as it is: tensors sent in binary form alias it, at any alignment. Tensors sent as JSON live in memory of the request,
// 64-byte aligned. Nothing of the request may be read after Release, names and other strings excepted.
type InferRequest struct {
	edgewise.Request
	Answers      []Answer // one for each of Outputs, in the same order
	Shared       []Place  // one for each of Inputs: where its bytes are, if not in the body
	BinaryOutput bool     // the form of outputs when Outputs is empty, that is when the client named none
	Classes      Classes  // for outputs wanted as classes; set by who knows the model, before the answer is encoded

	decoder *Decoder
	memory  arena
	dims    []int64 // what the shapes of Inputs are cut from
	binary  []int64 // for each of Inputs: its bytes after the JSON part, -1 when it is not there
	scratch []byte
	reader  tensors
	names   map[string]string // of tensors seen before, so that most requests allocate none
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

// Set tells whether it is a place at all.
func (p Place) Set() bool { return p.Region != "" }

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
	inputs, outputs := r.Inputs[:0], r.Outputs[:0]
	r.Request = edgewise.Request{Inputs: inputs, Outputs: outputs}
	r.Answers, r.dims, r.binary = r.Answers[:0], r.dims[:0], r.binary[:0]
	r.Shared = r.Shared[:0]
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

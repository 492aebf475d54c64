package kserve

import (
	"bytes"

	"github.com/edgewise-ai/edgewise"
)

// maxTemplate is the longest JSON part that is remembered, in bytes.
const maxTemplate = 1 << 10

// template is the JSON part that a pooled InferRequest was decoded from last, and what it says. Programs send the same one
// over and over before other binary tensors; to compare it takes a fraction of reading it. It is filled when a text comes
// the second time, so that texts which change cost a copy of their bytes and no more.
type template struct {
	text   []byte
	filled bool
	req    edgewise.Request // Inputs without bytes; the slices are the template's own
	dims   []int64          // what the shapes of its Inputs are cut from
	binary []int64

	answers      []Answer
	binaryOutput bool
}

// restore makes r what text says and returns true when that is known.
func (t *template) restore(r *InferRequest, text []byte) bool {
	if !t.filled || !bytes.Equal(text, t.text) {
		return false
	}
	model, inputs, outputs := r.Model, r.Inputs, r.Outputs
	r.Request = t.req
	r.Model = model
	r.dims = append(r.dims[:0], t.dims...)
	r.Inputs = append(inputs[:0], t.req.Inputs...)
	recut(r.Inputs, r.dims)
	r.Outputs = append(outputs[:0], t.req.Outputs...)
	r.Answers = append(r.Answers[:0], t.answers...)
	r.binary = append(r.binary[:0], t.binary...)
	for range r.Inputs {
		r.Shared = append(r.Shared, Place{})
	}
	r.BinaryOutput = t.binaryOutput
	return true
}

// learn remembers text, from which r has just been decoded, and what it says when it has come before.
func (t *template) learn(r *InferRequest, text []byte) {
	switch {
	case len(text) > maxTemplate:
		return
	case !bytes.Equal(text, t.text):
		t.text, t.filled = append(t.text[:0], text...), false
		return
	case !repeatable(r):
		return
	}
	t.dims = t.dims[:0]
	for i := range r.Inputs {
		t.dims = append(t.dims, r.Inputs[i].Shape...)
	}
	inputs, outputs := t.req.Inputs, t.req.Outputs
	t.req = r.Request
	t.req.Inputs, t.req.Outputs = append(inputs[:0], r.Inputs...), append(outputs[:0], r.Outputs...)
	recut(t.req.Inputs, t.dims)
	t.answers, t.binary = append(t.answers[:0], r.Answers...), append(t.binary[:0], r.binary...)
	t.binaryOutput, t.filled = r.BinaryOutput, true
}

// repeatable tells whether all of r but the bytes of its tensors is in its template: no tensor came as JSON, none is
// elsewhere, and nothing of it is handed on that its user could change.
func repeatable(r *InferRequest) bool {
	if r.Parameters != nil {
		return false
	}
	for i := range r.Inputs {
		if r.binary[i] < 0 || r.Shared[i].Set() {
			return false
		}
	}
	return true
}

// recut gives each of inputs its own part of dims for its shape, which it has already by value.
func recut(inputs []edgewise.Tensor, dims []int64) {
	at := 0
	for i := range inputs {
		rank := len(inputs[i].Shape)
		inputs[i].Shape = edgewise.Shape(dims[at : at+rank : at+rank])
		at += rank
	}
}

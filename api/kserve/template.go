package kserve

import (
	"bytes"

	"github.com/edgewise-ai/edgewise"
)

// maxTemplate is the longest JSON part that is remembered, in bytes, without the elements of its tensors.
const maxTemplate = 1 << 10

// template is the JSON part that a pooled InferRequest was decoded from last, but for the elements of its tensors, and what it says.
// Programs send the same one over and over, before other binary tensors or around other elements; to compare it takes a fraction
// of reading it. It is filled when a text comes the second time, so that texts which change cost a copy of their bytes and no more.
type template struct {
	text   []byte // without the elements
	gaps   []gap  // where they stood
	filled bool
	req    edgewise.Request // Inputs without bytes; the slices are the template's own
	dims   []int64          // what the shapes of its Inputs are cut from
	binary []int64

	answers      []Answer
	binaryOutput bool
}

// gap is where the elements of an input stood in the text of a template.
type gap struct{ input, at int }

// span is where the elements of an input stand in a JSON part, from their '[' to behind their ']'.
type span struct{ input, from, to int }

// elementsDepth is how many arrays and objects the elements of an input stand in.
const elementsDepth = 3

// restore makes r what the text that c is about to read says and returns true when that is known. It reads the elements; a text with
// which anything is wrong is not known, and left to who says what.
func (t *template) restore(r *InferRequest, c *tensors) bool {
	if !t.filled || !t.begins(c.b) {
		return false
	}
	model, inputs, outputs := r.Model, r.Inputs, r.Outputs
	r.Request = t.req
	r.Model = model
	r.dims = append(r.dims[:0], t.dims...)
	r.Inputs = append(inputs[:0], t.req.Inputs...)
	recut(r.Inputs, r.dims)
	if !t.read(r.Inputs, c) {
		clear(r.Inputs)
		r.Request = edgewise.Request{Model: model, Inputs: inputs[:0], Outputs: outputs[:0]}
		r.dims = r.dims[:0]
		r.memory.reset()
		return false
	}
	r.Outputs = append(outputs[:0], t.req.Outputs...)
	r.Answers = append(r.Answers[:0], t.answers...)
	r.binary = append(r.binary[:0], t.binary...)
	for range r.Inputs {
		r.Shared = append(r.Shared, Place{})
	}
	r.BinaryOutput = t.binaryOutput
	return true
}

// begins tells whether text is that of the template up to the first gap.
func (t *template) begins(text []byte) bool {
	if len(t.gaps) == 0 {
		return bytes.Equal(text, t.text)
	}
	return bytes.HasPrefix(text, t.text[:t.gaps[0].at])
}

// read reads the elements of inputs, and tells whether all around them is as in the template. It leaves c as it was when not.
func (t *template) read(inputs []edgewise.Tensor, c *tensors) (known bool) {
	defer func() {
		if !known {
			c.p, c.depth, c.sum, c.spans = 0, 0, 0, c.spans[:0]
		}
	}()
	from := 0
	for _, g := range t.gaps {
		if !bytes.HasPrefix(c.b[c.p:], t.text[from:g.at]) {
			return false
		}
		c.p, c.depth = c.p+g.at-from, elementsDepth
		elements := tensor{Tensor: inputs[g.input]}
		if c.next() != '[' || c.fill(&elements, len(c.b)) != nil {
			return false
		}
		inputs[g.input].Data = elements.Data
		from = g.at
	}
	return bytes.Equal(c.b[c.p:], t.text[from:])
}

// learn remembers text, from which r has just been decoded, and what it says when it has come before but for what stands at spans.
func (t *template) learn(r *InferRequest, text []byte, spans []span) {
	size := len(text)
	for _, s := range spans {
		size -= s.to - s.from
	}
	switch {
	case size > maxTemplate:
		return
	case !t.is(text, spans):
		t.keep(text, spans)
		return
	case !repeatable(r, spans):
		return
	}
	t.dims = t.dims[:0]
	for i := range r.Inputs {
		t.dims = append(t.dims, r.Inputs[i].Shape...)
	}
	inputs, outputs := t.req.Inputs, t.req.Outputs
	t.req = r.Request
	t.req.Inputs, t.req.Outputs = append(inputs[:0], r.Inputs...), append(outputs[:0], r.Outputs...)
	for i := range t.req.Inputs {
		t.req.Inputs[i].Data = nil
	}
	recut(t.req.Inputs, t.dims)
	t.answers, t.binary = append(t.answers[:0], r.Answers...), append(t.binary[:0], r.binary...)
	t.binaryOutput, t.filled = r.BinaryOutput, true
}

// is tells whether text, with elements at spans, is that of the template.
func (t *template) is(text []byte, spans []span) bool {
	if len(spans) != len(t.gaps) {
		return false
	}
	from, at := 0, 0
	for i, s := range spans {
		if g := t.gaps[i]; g.input != s.input || !bytes.Equal(t.text[at:g.at], text[from:s.from]) {
			return false
		}
		from, at = s.to, t.gaps[i].at
	}
	return bytes.Equal(t.text[at:], text[from:])
}

// keep makes text, without what stands at spans, that of the template.
func (t *template) keep(text []byte, spans []span) {
	t.text, t.gaps, t.filled = t.text[:0], t.gaps[:0], false
	from := 0
	for _, s := range spans {
		t.text = append(t.text, text[from:s.from]...)
		t.gaps = append(t.gaps, gap{s.input, len(t.text)})
		from = s.to
	}
	t.text = append(t.text, text[from:]...)
}

// repeatable tells whether all of r but the bytes of its tensors is in its template: none is elsewhere, or of strings, and nothing of it
// is handed on that its user could change.
func repeatable(r *InferRequest, spans []span) bool {
	if r.Parameters != nil {
		return false
	}
	read := 0
	for i := range r.Inputs {
		switch {
		case r.Shared[i].Set():
			return false
		case r.binary[i] >= 0:
		case read == len(spans) || spans[read].input != i || r.Inputs[i].Type == edgewise.Bytes:
			return false
		default:
			read++
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

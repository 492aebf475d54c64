// Package example keeps one request to a model together with its answer, as bytes that can be stored and read back on
// another box: a golden, or a request that was recorded.
//
// The bytes are a line of JSON, the header, and after it the bodies of the request and of the answer in the inference
// protocol's binary form, as api/kserve writes and reads them. docs/formats/example.md describes them.
package example

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Bounds of an encoded example.
const (
	MaxBytes  = 64 << 20 // in all
	MaxHeader = 64 << 10 // of its first line
	maxError  = 4 << 10  // bytes of the text of an error
)

const (
	headerRoom = MaxHeader + 1 // with the end of the line
	maxKept    = 4 << 20       // bytes of the memory that an Encoder keeps
)

// format is the number of the form that Encode writes. A higher one is refused.
const format = 1

// Example is a request with its answer.
type Example struct {
	Model      edgewise.ModelID // the version that answered
	Inputs     []edgewise.Tensor
	Wanted     []string       // the outputs that were asked for; empty: all
	Parameters map[string]any // custom parameters: string, int64, bool or float64
	Sequence   edgewise.Sequence
	Outputs    []edgewise.Tensor // the answer; none when Error is set
	Error      string            // why there is no answer

	MaskedInputs, MaskedOutputs []string // what a recording has hidden: it is missing, or something else stands in its place

	Arrived time.Time     // when the request arrived; zero: not known
	Took    time.Duration // until the answer; 0: not known
}

// Of returns the example that a request and its answer make. It aliases the bytes of both.
func Of(req *edgewise.Request, resp *edgewise.Response) *Example {
	return &Example{
		Model: resp.Model, Inputs: req.Inputs, Wanted: req.Outputs, Parameters: req.Parameters, Sequence: req.Sequence,
		Outputs: resp.Outputs,
	}
}

// Request returns the request to another version, 0 for the one that the policy picks. It aliases the example.
func (e *Example) Request(version int64) *edgewise.Request {
	return &edgewise.Request{
		Model:  edgewise.ModelID{Name: e.Model.Name, Version: version},
		Inputs: e.Inputs, Outputs: e.Wanted, Parameters: e.Parameters, Sequence: e.Sequence,
	}
}

// header is the first line of an encoded example. Sizes are bytes; the body of the answer ends where the data does.
type header struct {
	Format  int        `json:"edgewise_example"`
	Model   string     `json:"model"`
	Version int64      `json:"version"`
	Request bodySizes  `json:"request"`
	Answer  *bodySizes `json:"answer,omitempty"` // nil: there is none
	Error   string     `json:"error,omitempty"`

	MaskedInputs  []string   `json:"masked_inputs,omitempty"`
	MaskedOutputs []string   `json:"masked_outputs,omitempty"`
	Arrived       *time.Time `json:"arrived,omitempty"`
	Took          int64      `json:"took_ns,omitempty"`
}

// bodySizes are the lengths of a body and of its JSON part, which is at its beginning.
type bodySizes struct {
	JSON int `json:"json"`
	All  int `json:"all"`
}

// Encode returns the bytes of an example. Errors: Invalid for a tensor that is not well-formed or a parameter that has
// no form; TooLarge for more than MaxBytes.
func Encode(e *Example) ([]byte, error) { return new(Encoder).Encode(e) }

// Encoder encodes examples one after the other, into memory that is used again. It is not safe for concurrent use.
type Encoder struct {
	memory []byte // of the latest call; at most maxKept
}

// Encode is as the function of that name. The bytes are those of the example until the next call.
func (c *Encoder) Encode(e *Example) ([]byte, error) {
	h := header{
		Format: format, Model: e.Model.Name, Version: e.Model.Version, Error: cut(e.Error), Took: int64(e.Took),
		MaskedInputs: e.MaskedInputs, MaskedOutputs: e.MaskedOutputs,
	}
	if !e.Arrived.IsZero() {
		at := e.Arrived.UTC()
		h.Arrived = &at
	}
	// The header has the sizes of the bodies: it is written last, to the end of the room before them.
	data := slices.Grow(c.memory[:0], headerRoom+e.size())[:headerRoom]
	data, size, err := kserve.AppendInferRequest(data, e.Request(0), kserve.Binary, kserve.Binary)
	if err != nil {
		return nil, err
	}
	h.Request = bodySizes{JSON: size, All: len(data) - headerRoom}
	if e.Error == "" {
		resp := &edgewise.Response{Model: e.Model, Outputs: e.Outputs}
		began := len(data)
		if data, size, err = kserve.AppendInferResponse(data, &kserve.InferRequest{BinaryOutput: true}, resp); err != nil {
			return nil, err
		}
		h.Answer = &bodySizes{JSON: size, All: len(data) - began}
	}
	if cap(data) <= maxKept {
		c.memory = data
	}
	first, err := json.Marshal(h)
	if err != nil {
		return nil, edgewise.Errorf("example.Encode", edgewise.Invalid, "%w", err)
	}
	first = append(first, '\n')
	if all := len(first) + len(data) - headerRoom; len(first) > headerRoom || all > MaxBytes {
		return nil, tooLarge("example.Encode", all)
	}
	began := headerRoom - len(first)
	copy(data[began:], first)
	return data[began:], nil
}

// size estimates the bytes of the bodies, rather too many than too few.
func (e *Example) size() int {
	n := 512 + len(e.Model.Name) + 64*(len(e.Wanted)+len(e.Parameters))
	for _, list := range [][]edgewise.Tensor{e.Inputs, e.Outputs} {
		for i := range list {
			n += 96 + len(list[i].Name) + 8*len(list[i].Shape) + len(list[i].Data)
		}
	}
	return n
}

// cut returns an error's text within its bound.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "?")
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "")
}

// Decode reads an encoded example and checks all of it but the model's signature. The example aliases data. Errors:
// Invalid, TooLarge, Unsupported for a newer form.
func Decode(data []byte) (*Example, error) {
	if len(data) > MaxBytes {
		return nil, tooLarge("example.Decode", len(data))
	}
	h, body, err := readHeader(data)
	if err != nil {
		return nil, err
	}
	e := &Example{
		Model: edgewise.ModelID{Name: h.Model, Version: h.Version}, Error: h.Error, Took: time.Duration(h.Took),
		MaskedInputs: h.MaskedInputs, MaskedOutputs: h.MaskedOutputs,
	}
	if h.Arrived != nil {
		e.Arrived = *h.Arrived
	}
	if err := e.readRequest(body[:h.Request.All], h.Request.JSON); err != nil {
		return nil, err
	}
	if h.Answer == nil {
		return e, nil
	}
	resp, err := kserve.DecodeInferResponse(body[h.Request.All:], h.Answer.JSON, kserve.Limits{})
	if err != nil {
		return nil, err
	}
	e.Outputs = resp.Outputs
	return e, nil
}

// readHeader splits data into its header, which has been checked, and the bodies.
func readHeader(data []byte) (h header, body []byte, err error) {
	end := bytes.IndexByte(data[:min(len(data), MaxHeader+1)], '\n')
	if end < 0 {
		return h, nil, invalid("it has no header: its first line is longer than %d bytes or has no end", MaxHeader)
	}
	d := json.NewDecoder(bytes.NewReader(data[:end]))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		if h.Format > format {
			return h, nil, newer(h)
		}
		return h, nil, invalid("its header cannot be read: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return h, nil, invalid("its header has something behind the JSON object")
	}
	return h, data[end+1:], h.check(len(data) - end - 1)
}

// check compares a header with itself and with the size of the bodies.
func (h *header) check(size int) error {
	answer := bodySizes{}
	if h.Answer != nil {
		answer = *h.Answer
	}
	switch {
	case h.Format > format:
		return newer(*h)
	case h.Format != format:
		return invalid("its form is number %d: want %d", h.Format, format)
	case edgewise.CheckName(h.Model) != nil || h.Version < 0:
		return invalid("it names the model %.100q and the version %d", h.Model, h.Version)
	case h.Took < 0 || len(h.Error) > maxError:
		return invalid("its time is negative or its error has more than %d bytes", maxError)
	case (h.Answer == nil) != (h.Error != ""):
		return invalid("it has both an answer and an error, or neither")
	case !h.Request.within(size) || !answer.within(size-h.Request.All) || h.Request.All+answer.All != size:
		return invalid("its bodies have %d bytes, which the header does not say", size)
	}
	return nil
}

func (b bodySizes) within(size int) bool { return b.JSON >= 0 && b.JSON <= b.All && b.All <= size }

// readRequest reads the body of the request.
func (e *Example) readRequest(body []byte, jsonSize int) error {
	// The request is not released, so that its memory stays the example's.
	req, err := kserve.NewDecoder(kserve.Limits{}).Infer(e.Model, body, jsonSize)
	if err != nil {
		return err
	}
	for i := range req.Inputs {
		if req.Shared[i].Set() {
			return invalid("its input %q is in shared memory", req.Inputs[i].Name)
		}
		if err := req.Inputs[i].Check(); err != nil {
			return invalid("%w", err)
		}
	}
	e.Inputs, e.Wanted = req.Inputs, req.Outputs
	e.Parameters, e.Sequence = req.Parameters, req.Sequence
	return nil
}

func newer(h header) error {
	return edgewise.Errorf("example.Decode", edgewise.Unsupported,
		"the example has form %d: this release reads up to %d", h.Format, format)
}

func invalid(message string, args ...any) error {
	return edgewise.Errorf("example.Decode", edgewise.Invalid, "the example cannot be read: "+message, args...)
}

func tooLarge(op string, size int) error {
	return edgewise.Errorf(op, edgewise.TooLarge, "the example has %d bytes: at most %d are allowed", size, MaxBytes).
		WithLimit(MaxBytes)
}

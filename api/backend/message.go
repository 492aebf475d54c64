package backend

import (
	"encoding/binary"
	"encoding/json"

	"github.com/edgewise-ai/edgewise"
)

// Tensor says where in shared memory a tensor stands. Offset is a multiple of 64; that of a tensor of no bytes is 0.
type Tensor struct {
	Name   string
	Type   edgewise.DataType
	Shape  edgewise.Shape
	Offset uint64
	Size   uint64
}

// block returns the block of a message with tensors: the lowest offset of those that have bytes. ok is false when none
// has.
func block(tensors []Tensor) (offset uint64, ok bool) {
	for i := range tensors {
		if t := &tensors[i]; t.Size > 0 && (!ok || t.Offset < offset) {
			offset, ok = t.Offset, true
		}
	}
	return offset, ok
}

// Start is the first message to a backend.
type Start struct {
	Protocol       int             `json:"protocol"`
	Model          string          `json:"model"`
	Version        int64           `json:"version"`
	Directory      string          `json:"directory"`       // of the version's files
	ModelDirectory string          `json:"model_directory"` // holds that folder under the version's number, as Triton's
	Configuration  json.RawMessage `json:"configuration"`   // Triton's JSON, with names of enumerations
	Instance       StartInstance   `json:"instance"`
	InputBytes     int64           `json:"input_bytes"`
	OutputBytes    int64           `json:"output_bytes"`
	Threads        int             `json:"threads"`  // cores of one execution
	Complete       bool            `json:"complete"` // the configuration may be completed
	Describe       bool            `json:"describe"` // only READY is wanted; then the process ends
	Log            string          `json:"log"`      // the least level of log lines: verbose, info, warning or error
}

// StartInstance says which instance the process is.
type StartInstance struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`   // KIND_CPU or KIND_GPU
	Device int    `json:"device"` // of the GPU
	Index  int    `json:"index"`  // among the instances of the version
}

// Ready is the answer to Start. Exactly one of an Error and the rest counts.
type Ready struct {
	Configuration json.RawMessage `json:"configuration,omitempty"` // completed; nil: as it was
	Inputs        []Signature     `json:"inputs,omitempty"`        // of the model's file, without the batch dimension
	Outputs       []Signature     `json:"outputs,omitempty"`
	MaxBatchSize  *int32          `json:"max_batch_size,omitempty"`
	Decoupled     *bool           `json:"decoupled,omitempty"`
	Checks        bool            `json:"checks,omitempty"` // the model says itself whether it is ready: see KindCheck
	Note          string          `json:"note,omitempty"`   // for people
	Error         *Error          `json:"error,omitempty"`
}

// Signature is a tensor that a model takes or makes.
type Signature struct {
	Name     string            `json:"name"`
	Type     edgewise.DataType `json:"data_type"`
	Dims     edgewise.Shape    `json:"dims"` // -1: any size
	Optional bool              `json:"optional,omitempty"`
}

// Latest is the version of an Exec that any version may answer.
const Latest = -1

// Exec is a request of a backend's to another model.
type Exec struct {
	Exec      uint64
	Call      uint64 // on whose behalf; 0: of no call's
	Decoupled bool   // any number of responses is taken
	Model     string
	Version   int64 // or Latest
	Request
}

const execDecoupled = 1

func appendExec(b []byte, x *Exec) ([]byte, error) {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(begin(b, KindExec), x.Exec)
	b = binary.LittleEndian.AppendUint64(b, x.Call)
	flags := byte(0)
	if x.Decoupled {
		flags = execDecoupled
	}
	b = appendStr(append(b, flags), x.Model)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.Version))
	return finish(appendRequest(b, &x.Request), start)
}

func decodeExec(body []byte) (*Exec, error) {
	c := cursor{b: body}
	x := &Exec{Exec: c.u64(), Call: c.u64(), Decoupled: c.u8()&execDecoupled != 0, Model: c.str(), Version: int64(c.u64())}
	x.Request = c.request()
	return x, c.end(KindExec)
}

// Control asks the server to load or unload a model, or whether one is ready: one of the first three is set.
type Control struct {
	Load             string            `json:"load,omitempty"`
	Unload           string            `json:"unload,omitempty"`
	Ready            string            `json:"ready,omitempty"`
	Version          string            `json:"version,omitempty"`           // of Ready; empty: any
	Config           string            `json:"config,omitempty"`            // of Load, JSON
	Files            map[string][]byte `json:"files,omitempty"`             // of Load, such as "file:1/model.onnx"; base64
	UnloadDependents bool              `json:"unload_dependents,omitempty"` // of Unload
}

// ControlAnswer answers a Control.
type ControlAnswer struct {
	Ready bool   `json:"ready,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// appendNumbers appends a frame of numbers alone.
func appendNumbers(b []byte, k Kind, numbers ...uint64) []byte {
	start := len(b)
	b = begin(b, k)
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b, _ = finish(b, start) // it is short
	return b
}

// decodeNumber reads a frame of one number.
func decodeNumber(k Kind, body []byte) (uint64, error) {
	c := cursor{b: body}
	n := c.u64()
	return n, c.end(k)
}

func decodePong(body []byte) (ping, bytes uint64, err error) {
	c := cursor{b: body}
	ping, bytes = c.u64(), c.u64()
	return ping, bytes, c.end(KindPong)
}

// appendJSON appends a frame of JSON text, with numbers before it.
func appendJSON(b []byte, k Kind, value any, numbers ...uint64) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return b, err
	}
	start := len(b)
	b = begin(b, k)
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return finish(appendText(b, text), start)
}

// decodeJSON reads a frame of JSON text into value, with as many numbers before it as are asked for.
func decodeJSON(k Kind, body []byte, value any, numbers ...*uint64) error {
	c := cursor{b: body}
	for _, n := range numbers {
		*n = c.u64()
	}
	text := c.bytes()
	if err := c.end(k); err != nil {
		return err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return broken("frame of kind %d: %v", k, err)
	}
	return nil
}

func appendChecked(b []byte, id uint64, ready bool, reason string) ([]byte, error) {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(begin(b, KindChecked), id)
	b = append(b, 0)
	if ready {
		b[len(b)-1] = 1
	}
	return finish(appendText(b, reason[:min(len(reason), maxMessage)]), start)
}

func decodeChecked(body []byte) (id uint64, ready bool, reason string, err error) {
	c := cursor{b: body}
	id, ready, reason = c.u64(), c.u8() != 0, c.text()
	return id, ready, reason, c.end(KindChecked)
}

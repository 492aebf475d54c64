package backend

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

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

// Flags of sequences in a request.
const (
	SequenceStart uint32 = 1
	SequenceEnd   uint32 = 2
)

// Request is one inference on the wire.
type Request struct {
	ID              string
	Correlation     uint64 // of its sequence, as a number
	CorrelationText string // or as a text
	Flags           uint32
	Priority        uint64
	Timeout         time.Duration // whole microseconds
	Parameters      map[string]any
	Wanted          []string // the outputs wanted; empty: all
	Inputs          []Tensor
}

func (c *cursor) request() Request {
	r := Request{ID: c.str(), Correlation: c.u64(), CorrelationText: c.str(), Flags: c.u32(), Priority: c.u64()}
	r.Timeout = time.Duration(min(c.u64(), maxMicroseconds)) * time.Microsecond
	r.Parameters = c.parameters()
	if n := c.count(2); n > 0 {
		r.Wanted = make([]string, n)
		for i := range r.Wanted {
			r.Wanted[i] = c.str()
		}
	}
	r.Inputs = c.tensors()
	return r
}

// maxMicroseconds is the longest time.Duration.
const maxMicroseconds = uint64(1<<63-1) / 1000

func appendRequest(b []byte, r *Request) []byte {
	b = appendStr(b, r.ID)
	b = binary.LittleEndian.AppendUint64(b, r.Correlation)
	b = appendStr(b, r.CorrelationText)
	b = binary.LittleEndian.AppendUint32(b, r.Flags)
	b = binary.LittleEndian.AppendUint64(b, r.Priority)
	b = binary.LittleEndian.AppendUint64(b, uint64(max(r.Timeout, 0)/time.Microsecond))
	b = appendParameters(b, r.Parameters)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Wanted)))
	for _, name := range r.Wanted {
		b = appendStr(b, name)
	}
	return appendTensors(b, r.Inputs)
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

// Code says what kind of error there was, in Triton's kinds.
type Code uint8

// The codes of errors. Others count as Unknown.
const (
	Unknown       Code = 1
	InternalError Code = 2
	NotFound      Code = 3
	InvalidArg    Code = 4
	Unavailable   Code = 5
	Unsupported   Code = 6
	AlreadyExists Code = 7
	Cancelled     Code = 8
)

// Error is a failure on the wire.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// codes gives each kind of error its code.
var codes = map[edgewise.Kind]Code{
	edgewise.Invalid: InvalidArg, edgewise.NotFound: NotFound, edgewise.Exists: AlreadyExists,
	edgewise.Unavailable: Unavailable, edgewise.Busy: Unavailable, edgewise.Exhausted: Unavailable,
	edgewise.Unsupported: Unsupported, edgewise.Canceled: Cancelled, edgewise.Deadline: Cancelled,
	edgewise.TooLarge: InvalidArg,
}

// kinds gives each code its kind of error.
var kinds = map[Code]edgewise.Kind{
	NotFound: edgewise.NotFound, InvalidArg: edgewise.Invalid, Unavailable: edgewise.Unavailable,
	Unsupported: edgewise.Unsupported, AlreadyExists: edgewise.Exists, Cancelled: edgewise.Canceled,
}

// ErrorOf returns err as it crosses the wire, nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	if own, ok := err.(*Error); ok {
		return own
	}
	code, ok := codes[edgewise.KindOf(err)]
	if !ok {
		code = InternalError
	}
	return &Error{code, err.Error()}
}

// Kind returns the kind of an error that crossed the wire.
func (e *Error) Kind() edgewise.Kind { return kinds[e.Code] }

// maxMessage bounds the message of an error, in bytes.
const maxMessage = 64 << 10

func appendError(b []byte, e *Error) []byte {
	return appendText(append(b, byte(e.Code)), e.Message[:min(len(e.Message), maxMessage)])
}

func (c *cursor) error() *Error { return &Error{Code(c.u8()), c.text()} }

// Run is one batch on its way to a backend.
type Run struct {
	Run    uint64
	Joined bool // the inputs of a name stand one after the other, in the order of the calls
	Calls  []RunCall
}

// RunCall is one request of a batch.
type RunCall struct {
	Call uint64
	Request
}

const runJoined = 1

// minCall is the shortest form of a call.
const minCall = 8 + 2 + 8 + 2 + 4 + 8 + 8 + 2 + 2 + 2

func appendRun(b []byte, r *Run) ([]byte, error) {
	start := len(b)
	b = begin(b, KindRun)
	b = binary.LittleEndian.AppendUint64(b, r.Run)
	flags := byte(0)
	if r.Joined {
		flags = runJoined
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Calls)))
	for i := range r.Calls {
		b = binary.LittleEndian.AppendUint64(b, r.Calls[i].Call)
		b = appendRequest(b, &r.Calls[i].Request)
	}
	return finish(b, start)
}

func decodeRun(body []byte) (*Run, error) {
	c := cursor{b: body}
	r := &Run{Run: c.u64(), Joined: c.u8()&runJoined != 0}
	n := c.count(minCall)
	r.Calls = make([]RunCall, n)
	for i := range r.Calls {
		r.Calls[i].Call = c.u64()
		r.Calls[i].Request = c.request()
	}
	return r, c.end(KindRun)
}

// Flags of answers.
const (
	flagFinal = 1
	flagError = 2
	flagEmpty = 4
)

// Answer is what RESPONSE and REPLY have in common: one of the responses of a request.
type Answer struct {
	Final      bool   // no more will come
	Empty      bool   // it has no outputs because it says no more than Final
	Error      *Error // nil: none
	Parameters map[string]any
	Outputs    []Tensor
}

func (a *Answer) flags() byte {
	var f byte
	if a.Final {
		f |= flagFinal
	}
	if a.Error != nil {
		f |= flagError
	}
	if a.Empty {
		f |= flagEmpty
	}
	return f
}

// head reads the flags and the error.
func (c *cursor) head(a *Answer) {
	f := c.u8()
	if f&^(flagFinal|flagError|flagEmpty) != 0 {
		c.fail("it has unknown flags")
	}
	a.Final, a.Empty = f&flagFinal != 0, f&flagEmpty != 0
	if f&flagError != 0 {
		a.Error = c.error()
	}
}

func appendHead(b []byte, a *Answer) []byte {
	b = append(b, a.flags())
	if a.Error != nil {
		b = appendError(b, a.Error)
	}
	return b
}

// Reply is a response of another model to a request of a backend's.
type Reply struct {
	Exec    uint64
	Model   string // that answered
	Version int64
	Answer
}

func appendReply(b []byte, r *Reply) ([]byte, error) {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(begin(b, KindReply), r.Exec)
	b = appendHead(b, &r.Answer)
	b = appendStr(b, r.Model)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Version))
	b = appendParameters(b, r.Parameters)
	return finish(appendTensors(b, r.Outputs), start)
}

func decodeReply(body []byte) (*Reply, error) {
	c := cursor{b: body}
	r := &Reply{Exec: c.u64()}
	c.head(&r.Answer)
	r.Model, r.Version, r.Parameters, r.Outputs = c.str(), int64(c.u64()), c.parameters(), c.tensors()
	return r, c.end(KindReply)
}

// response is a response to a call.
type response struct {
	call uint64
	Answer
}

func appendResponse(b []byte, r *response) ([]byte, error) {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(begin(b, KindResponse), r.call)
	b = appendHead(b, &r.Answer)
	b = appendParameters(b, r.Parameters)
	return finish(appendTensors(b, r.Outputs), start)
}

func decodeResponse(body []byte) (*response, error) {
	c := cursor{b: body}
	r := &response{call: c.u64()}
	c.head(&r.Answer)
	r.Parameters, r.Outputs = c.parameters(), c.tensors()
	return r, c.end(KindResponse)
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

// Level is the level of a log line.
type Level uint8

// The levels of log lines.
const (
	Verbose Level = 0
	Info    Level = 1
	Warning Level = 2
	Err     Level = 3
)

// levelNames are those of Start.Log.
var levelNames = []string{"verbose", "info", "warning", "error"}

// String returns the level's name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// ParseLevel reads a level's name. An unknown one counts as info.
func ParseLevel(name string) Level {
	for i, known := range levelNames {
		if known == name {
			return Level(i)
		}
	}
	return Info
}

func appendLog(b []byte, l Level, line string) ([]byte, error) {
	start := len(b)
	return finish(appendText(append(begin(b, KindLog), byte(l)), line), start)
}

func decodeLog(body []byte) (l Level, line string, err error) {
	c := cursor{b: body}
	l, line = Level(c.u8()), c.text()
	if l > Err {
		c.fail("it has an unknown level")
	}
	return l, line, c.end(KindLog)
}

// Operations of a Metric.
const (
	MetricFamily    = "family" // names a family, once, before its metrics
	MetricNew       = "metric" // names a metric of it, once, with its labels
	MetricIncrement = "increment"
	MetricSet       = "set"
	MetricObserve   = "observe"
)

// Metric makes or changes one of a backend's own metrics. The same metric of several instances is one.
type Metric struct {
	Op          string            `json:"op"`
	Family      string            `json:"family"`                // its name
	Description string            `json:"description,omitempty"` // of MetricFamily
	Kind        string            `json:"kind,omitempty"`        // of MetricFamily: counter, gauge or histogram
	Labels      map[string]string `json:"labels,omitempty"`      // of a metric, beside model and version
	Buckets     []float64         `json:"buckets,omitempty"`     // of MetricNew, of a histogram
	Value       float64           `json:"value,omitempty"`
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

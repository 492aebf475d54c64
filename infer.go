package edgewise

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Request is one inference. The bytes of its tensors belong to the caller of Infer; see Tensor.
type Request struct {
	ID         string         // chosen by the client, echoed in the response; may be empty
	Model      ModelID        // Version 0: the one the policy picks
	Inputs     []Tensor       // in any order; names are unique
	Outputs    []string       // the outputs wanted; empty: all
	Parameters map[string]any // custom parameters: string, int64, bool or float64
	Priority   uint64         // 1 is highest; 0 is the model's default
	Timeout    time.Duration  // the time it may wait in the queue; 0: no such bound beside the context's
	Sequence   Sequence
	Arrived    time.Time // when it had arrived completely; zero: when Infer is called
	Callers    []string  // of the request of a step: the models that wait for its response, outermost first
	Pictures   []string  // the outputs that are wanted as Pictures where the model can make them
	Trial      bool      // the inputs are made up, to find out whether the version works
	Background bool      // nobody waits for the answer: a version that can runs it in time that no other request wants
	// Instance is the instance of the version, from 1, that keeps the state of the request's sequence; 0: any of them. Its
	// sequence batcher sets it.
	Instance int

	// Each receives the responses of a decoupled model that come before the one that Infer returns: in order, one at a
	// time, in any goroutine, and never after Infer has returned. It releases them. While it waits the model waits. Its
	// error cancels the request, and Infer returns that error. nil: exactly one response is taken, so that a decoupled
	// model refuses the request. Other models do not call it.
	Each func(*Response) error
	// Stop ends when the caller asks for no further responses, and still reads those that come: a model that can be told
	// is told, and says how it ends. nil: the caller asks for all of them.
	Stop context.Context
}

// Came returns when the request arrived: Arrived, or now when that is zero.
func (r *Request) Came() time.Time {
	if r.Arrived.IsZero() {
		return time.Now()
	}
	return r.Arrived
}

// Sequence places a request in a sequence. The zero value is a request outside any sequence.
type Sequence struct {
	ID         uint64
	Name       string // instead of ID, when the client names sequences by text
	Start, End bool
}

// Active tells whether the request belongs to a sequence.
func (s Sequence) Active() bool { return s.ID != 0 || s.Name != "" }

// Response is the answer to a Request. Its outputs are borrowed by the receiver, who calls Release when they are no
// longer read; a response that is never released keeps its memory.
type Response struct {
	ID         string
	Model      ModelID // Version is the one that answered, never 0
	Outputs    []Tensor
	Parameters map[string]any
	Timing     Timing
	// Fault is that a decoupled model could not make this response. It has no outputs then, and further ones may follow.
	// Only Each receives such a response.
	Fault error
	Empty bool   // it is the last one of a decoupled model and carries nothing but the end
	Free  func() // releases the memory of the outputs; nil when there is nothing to release
}

// Release ends the receiver's use of the outputs. It may be called more than once, and on nil, but by one goroutine.
func (r *Response) Release() {
	if r == nil || r.Free == nil {
		return
	}
	free := r.Free
	r.Free, r.Outputs = nil, nil
	free()
}

// Timing splits the time of a request inside the box.
type Timing struct {
	Queue  time.Duration // from arrival to the start of its execution
	Input  time.Duration // preparing the input tensors
	Infer  time.Duration // running
	Wake   time.Duration // of Queue: the start of a process that had given its memory to others, for this request's batch
	Output time.Duration // reading the output tensors
	Batch  int           // elements in the executed batch
	// from the arrival to the first response of a decoupled model; 0 for other models
	First time.Duration
	// Of Queue, see Explain: until the request was queued, for its sequence, and for other things than requests of its own
	// model, of which so many ran before it.
	Prepared, Sequence time.Duration
	Waits              []Wait
	Ahead              int
	// what a WebAssembly step used for that batch, or an ensemble's steps together; zero for other models
	Guest Usage
}

// Add adds the times of another request, and what its steps used.
func (t *Timing) Add(other Timing) {
	t.Queue += other.Queue
	t.Input += other.Input
	t.Infer += other.Infer
	t.Wake += other.Wake
	t.Output += other.Output
	t.Guest = t.Guest.Add(other.Guest)
}

// Usage is what a run of a WebAssembly step consumed.
type Usage struct {
	Fuel   uint64        // units of about one instruction
	Memory int64         // bytes of its memory, at the peak
	Time   time.Duration // in its own code
	Host   time.Duration // in host functions that it called: kernels, other models
}

// Add returns what two runs have used together.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		Fuel: u.Fuel + other.Fuel, Memory: max(u.Memory, other.Memory), Time: u.Time + other.Time,
		Host: u.Host + other.Host,
	}
}

// Inferer answers inference requests. Infer is safe for concurrent use, and the request's tensors are not read after it
// has returned. It calls ordering.Queued before it waits for anything. Errors: Invalid (the request contradicts the
// model), NotFound (no such model or version), Unavailable (not ready), Busy (a queue is full), Deadline, Canceled,
// Guest, Internal.
type Inferer interface {
	Infer(ctx context.Context, req *Request) (*Response, error)
}

// CheckEach says why a decoupled model cannot answer the request: it takes exactly one response (kind Unsupported).
func (r *Request) CheckEach(id ModelID) error {
	if r.Each != nil {
		return nil
	}
	return &Error{
		Op: "edgewise.CheckEach", Kind: Unsupported, Model: id,
		Err: fmt.Errorf("model '%s' is decoupled: a request has any number of responses, and this one takes one", id.Name),
	}
}

// Exchange is what a frontend does before and after an inference and what is counted with it.
type Exchange struct {
	// Lookup returns the version that the client's label points to now; nil: the client named no label.
	Lookup func() (ModelID, error)
	// Deliver turns the response into the client's answer; nil: nothing is left to do that can fail.
	Deliver func(*Response) error
}

// Infer lets engine answer req, and delivers the response. A version may be unloaded between the lookup of its label
// and the run, because the label has moved: then the request is sent to the version that the label points to now. When
// Lookup fails, or returns the same version, the engine's error is returned. When Deliver fails, the response is
// returned with the error; the caller releases it.
func (x Exchange) Infer(ctx context.Context, engine Inferer, req *Request) (*Response, error) {
	resp, begun, err := x.ask(ctx, engine, req)
	for err != nil && !begun && x.moved(req, err) {
		resp, begun, err = x.ask(ctx, engine, req)
	}
	if err != nil || x.Deliver == nil {
		return resp, err
	}
	returned := false
	defer func() {
		if !returned { // it panics
			resp.Release()
		}
	}()
	err = x.Deliver(resp)
	returned = true
	return resp, err
}

// ask is engine.Infer. begun tells whether the client has a response: then the request is not sent again.
func (Exchange) ask(ctx context.Context, engine Inferer, req *Request) (resp *Response, begun bool, err error) {
	if req.Each == nil {
		resp, err = engine.Infer(ctx, req)
		return resp, false, err
	}
	each, flag := req.Each, new(bool)
	req.Each = func(resp *Response) error {
		*flag = true
		return each(resp)
	}
	defer func() { req.Each = each }()
	resp, err = engine.Infer(ctx, req)
	return resp, *flag, err
}

// moved tells whether a request failed because its label had moved, and directs it to where the label points now.
func (x Exchange) moved(req *Request, err error) bool {
	if kind := KindOf(err); x.Lookup == nil || kind != NotFound && kind != Unavailable {
		return false
	}
	now, missing := x.Lookup()
	if missing != nil || now == req.Model {
		return false
	}
	req.Model = now
	return true
}

// LoadOverride is what a load gives in place of what a model's folder holds. Files hold for that load alone; a
// configuration without files holds until the folder changes or the model is unloaded.
type LoadOverride struct {
	Config []byte            // JSON; nil: the folder's own
	Files  map[string][]byte // by path in the model's folder, such as "1/model.onnx"; not nil: only these exist
}

// Servable is a loaded version that answers requests.
type Servable interface {
	Inferer
	// Statistics returns what has been measured so far.
	Statistics() Statistics
	// Close refuses new requests, waits for those in flight and releases the memory. It is called once.
	Close() error
}

// Backend loads versions of some formats. All methods are safe for concurrent use.
type Backend interface {
	// Formats are the formats that it loads, at least one, each with a platform of its own. They do not change.
	Formats() []Format
	// Inspect reads the model's files in dir without loading them and without native code; what they leave open, a
	// runner.Describer says. m is what the author declared so far; files outside dir are never opened. Errors: Invalid
	// (with the reason), TooLarge, Unsupported.
	Inspect(ctx context.Context, dir string, m *Model) (*Inspection, error)
	// Load makes an instance of v, whose files stand in dir, on a device. dir outlives the instance.
	// Errors: Invalid, Unsupported, Exhausted, Internal.
	Load(ctx context.Context, v *Version, dir string, on Device) (Instance, error)
}

// Instance is a loaded version on a device. Run is safe for concurrent use.
type Instance interface {
	// Run computes the outputs named in want from in, whose tensors have been checked against the model. It reads the
	// inputs until it returns. When ctx ends first it returns as soon as the runtime allows, with Deadline or Canceled.
	Run(ctx context.Context, in []Tensor, want []string, options RunOptions) (*Result, error)
	// Close releases the memory. No Run is in progress and no Result is unreleased. It is called once.
	Close() error
}

// RunOptions tell an Instance more about a run. The zero value is a run of which nothing more is known. An Instance
// ignores those that do not concern it.
type RunOptions struct {
	Parameters map[string]any // custom parameters of the request: string, int64, bool or float64
	Callers    []string       // see Request
	Pictures   []string       // see Request
	Trial      bool           // see Request
	Background bool           // the run has only time that no other run wants; for an Instance that has said that it can
	Solo       bool           // nothing else runs on the machine: the run may take Concurrency.Solo cores
	// the core, counted from 1, that no other run has: where the run's thread is best kept; 0: none
	Core   int
	Queued bool // other requests wait for the model behind this run

	// Place, unless nil, provides memory of the caller for the outputs, which saves the caller a copy. An Instance that
	// knows before it runs how many bytes outputs will take calls Place once with the size of each wanted output, 0 for
	// those that it does not know. Place returns as many slices, each nil or of the size asked for and aligned to 64; they
	// stay the caller's, and are written to until Run returns. An output that was made in its slice is that slice; any
	// other stands in the instance's memory until Result.Free.
	Place func(sizes []int64) [][]byte
}

// Answerer is an Instance that is given the requests of a batch as they are, and answers each by itself: several times,
// if the model is decoupled, and after Answer has returned, if it likes. Run is not called. It is what processes outside
// the box and steps that stream are.
type Answerer interface {
	Instance
	// Answer begins to answer calls, and returns when the instance can be given the next batch; calls may be open then.
	// Each is ended by an answer that is the last one. An error ends those that were not, and no answer to them follows.
	// Answer is called as often at a time as the version has instances. Close is called when no call is open.
	Answer(ctx context.Context, calls []*Call) error
}

// Call is one request in the hands of an Answerer.
type Call struct {
	// Context ends when nobody waits for further answers: the client has gone or asks for no more, its time is over, or
	// its reader failed. Then the instance ends the call soon.
	Context context.Context
	// Reader ends when nobody waits for further answers, and not when the caller asks for no more: those that come then are
	// still read. nil: it is Context.
	Reader context.Context
	// Request is the client's, with its inputs checked, in the model's order and in the backend's shapes. They are read
	// until the call has ended.
	Request *Request
	Want    []string // the outputs that are wanted; never empty
	// Answer gives an answer, which it owns from then on, and says whether it is the last one. Exactly one of r and err
	// is set; both are nil for an end without outputs. A call of a model that is not decoupled has one answer with
	// outputs. An err that is not the last answer is that one answer of a decoupled model could not be made. Answers of
	// one call are given one at a time, in any goroutine. Answer waits while the client reads slowly. Its error says that
	// nobody wants further answers: the instance stops, and ends the call. Outputs that are not wanted are left out.
	Answer func(r *Result, last bool, err error) error
}

// Result is what Instance.Run made: the outputs, in the order wanted, and how long it took.
type Result struct {
	Outputs       []Tensor
	Parameters    map[string]any // of the response: string, int64, bool or float64; only of an Answerer
	Input, Output time.Duration  // moving tensors in and out of the runtime
	Infer         time.Duration  // running
	Guest         Usage          // of a WebAssembly step
	Wide          bool           // it was a Solo run, and used more cores than other runs do
	Free          func()         // ends the use of Outputs; never nil
}

// Inspection is what a backend reads out of a model's files.
type Inspection struct {
	Inputs         []TensorInfo      `json:"inputs"`
	Outputs        []TensorInfo      `json:"outputs"`
	Backend        string            `json:"backend,omitempty"` // the other program that serves it; empty: the box itself
	File           string            `json:"file,omitempty"`    // what of the version that program loads
	Producer       string            `json:"producer,omitempty"`
	Opsets         map[string]int64  `json:"opsets"`    // by operator domain; "" is written as "ai.onnx"
	Operators      map[string]int    `json:"operators"` // how many nodes of each "domain.Type"
	Metadata       map[string]string `json:"metadata,omitempty"`
	Parameters     int64             `json:"parameters"`      // elements of all weights
	ParameterBytes int64             `json:"parameter_bytes"` // bytes of all weights, external data included
	Nodes          int               `json:"nodes"`
	MaxBatchSize   *int32            `json:"max_batch_size,omitempty"` // what the file itself says; nil: it does not say
	Decoupled      bool              `json:"decoupled,omitempty"`      // the file says that a request has any number of responses
	Steps          []ModelID         `json:"steps,omitempty"`          // of an ensemble, the models that it runs
	Omitted        []Omitted         `json:"omitted,omitempty"`        // what the file has and is not served
	// what the model itself says of its configuration, with dims as clients see them; MaxBatchSize below 0: nothing of it
	Completed *Model `json:"-"`
}

// Omitted is an input or an output of a model file that requests and answers cannot carry, so that the model is served
// without it.
type Omitted struct {
	Name   string `json:"name"`
	Reason string `json:"reason"` // a sentence that names it
}

// Open tells whether the file leaves the type or the number of dimensions of an output to the runtime, and m does not
// declare that output.
func (i *Inspection) Open(m *Model) bool {
	return slices.ContainsFunc(i.Outputs, func(t TensorInfo) bool {
		return (t.Type == InvalidType || t.Shape == nil) && m.output(t.Name) == nil
	})
}

// Settle gives the outputs that the file leaves open the types and shapes in described, and else the types that m
// declares. An output that is no tensor of a known type after that is moved to Omitted.
func (i *Inspection) Settle(m *Model, described []TensorInfo) {
	var outputs []TensorInfo
	for _, t := range i.Outputs {
		at := slices.IndexFunc(described, func(d TensorInfo) bool { return d.Name == t.Name })
		declared := m.output(t.Name)
		switch {
		case t.Type != InvalidType && t.Shape != nil:
		case at >= 0:
			t.Type, t.Datatype, t.Shape = described[at].Type, described[at].Datatype, described[at].Shape
		case t.Type == InvalidType && declared != nil:
			t.Type, t.Datatype = declared.DataType, declared.DataType.String()
		}
		if t.Type == InvalidType {
			i.Omitted = append(i.Omitted,
				Omitted{t.Name, fmt.Sprintf("output %q is %s: answers cannot carry that", t.Name,
					cmp.Or(t.Datatype, "of an unknown type"))})
			continue
		}
		outputs = append(outputs, t)
	}
	i.Outputs = outputs
}

// TensorInfo is the signature of one tensor of a model file.
type TensorInfo struct {
	Name     string   `json:"name"`
	Type     DataType `json:"-"`
	Datatype string   `json:"datatype"`
	Shape    Shape    `json:"shape"`              // -1: any size; nil: the number of dimensions is not known
	Dims     []string `json:"dims,omitempty"`     // symbolic names, "" where the size is fixed or unnamed
	Optional bool     `json:"optional,omitempty"` // an initializer gives its default
}

package activity

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of the kept requests.
const (
	MaxRequests   = 1000 // answered requests
	MaxFailures   = 500  // failed requests, and as many refused ones
	maxSpans      = 256  // of one request
	maxTensors    = 8    // inputs, and outputs, of one request that are described
	maxKeptRank   = 8    // dimensions of one of them
	maxErrorBytes = 1000
)

// Requests keeps the latest inference requests: answered, failed and refused ones in a ring each, so that many of one
// sort do not displace the others. It is safe for concurrent use.
type Requests struct {
	mu       sync.Mutex // guards the fields below
	number   uint64
	answered ring
	failed   ring
	refused  ring
}

// ring keeps the latest requests of one sort, in the order of their ends.
type ring struct {
	kept []request // overwritten when full, so that keeping a request allocates nothing
	next int
}

// place returns the place of the next request in a ring of at most most.
func (r *ring) place(most int) *request {
	if len(r.kept) < most {
		r.kept = append(r.kept, request{})
		return &r.kept[len(r.kept)-1]
	}
	at := r.next
	r.next = (at + 1) % most
	return &r.kept[at]
}

// latest returns the request that is back places before the latest one; nil: the ring has fewer.
func (r *ring) latest(back int) *request {
	if back >= len(r.kept) {
		return nil
	}
	return &r.kept[(r.next+len(r.kept)-1-back)%len(r.kept)]
}

// place returns the place of a request that ended with err.
func (r *Requests) place(err error) *request {
	outcome := outcomeOf(err)
	switch {
	case outcome == answered:
		return r.answered.place(MaxRequests)
	case refused(outcome):
		return r.refused.place(MaxFailures)
	}
	return r.failed.place(MaxFailures)
}

// request is a request that has ended.
type request struct {
	number          uint64
	id              string
	caller          *edgewise.Principal
	model           edgewise.ModelID
	began           time.Time
	took            time.Duration
	timing          edgewise.Timing
	elements        int // its own, in the batch
	failure         error
	inputs, outputs tensors
	steps           *Recording
}

// tensors are the signatures of the first few tensors of a request.
type tensors struct {
	n    int
	list [maxTensors]signature
}

type signature struct {
	name string
	kind edgewise.DataType
	rank int
	dims [maxKeptRank]int64
}

func (t *tensors) keep(list []edgewise.Tensor) {
	t.n = min(len(list), maxTensors)
	for i := range t.n {
		s := &t.list[i]
		s.name, s.kind, s.rank = list[i].Name, list[i].Type, copy(s.dims[:], list[i].Shape)
	}
}

func (t *tensors) shown() []admin.Tensor {
	list := make([]admin.Tensor, t.n)
	for i := range list {
		s := &t.list[i]
		list[i] = admin.Tensor{Name: s.name, Datatype: s.kind.String(), Shape: append(edgewise.Shape{}, s.dims[:s.rank]...)}
	}
	return list
}

// Recording records the requests of an ensemble to its steps: the Recorder of one request.
type Recording struct {
	began time.Time

	mu    sync.Mutex // guards spans
	spans []span
}

type span struct {
	step, parent int // parent -1: the request itself
	model        edgewise.ModelID
	began, took  time.Duration // began since the request did
	timing       edgewise.Timing
	failure      error
}

// NewRecording begins to record a request.
func NewRecording() *Recording { return &Recording{began: time.Now()} }

// Ask records the start of a request to a step's model; the function that it returns records the end.
func (r *Recording) Ask(ctx context.Context, step int, req *edgewise.Request) (context.Context,
	func(*edgewise.Response, error),
) {
	return r.below(-1).Ask(ctx, step, req)
}

// below records the steps of an ensemble that is itself a step.
func (r *Recording) below(parent int) edgewise.Recorder { return &nested{r, parent} }

type nested struct {
	*Recording
	parent int
}

// Ask records a request to a step's model, as Recording.Ask.
func (n *nested) Ask(ctx context.Context, step int, req *edgewise.Request) (context.Context,
	func(*edgewise.Response, error),
) {
	r := n.Recording
	began := time.Since(r.began)
	r.mu.Lock()
	at := len(r.spans)
	if at >= maxSpans {
		r.mu.Unlock()
		return ctx, func(*edgewise.Response, error) {}
	}
	r.spans = append(r.spans, span{step: step, parent: n.parent, model: req.Model, began: began})
	r.mu.Unlock()
	return edgewise.WithRecorder(ctx, r.below(at)), func(resp *edgewise.Response, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		s := &r.spans[at]
		s.took, s.failure = time.Since(r.began)-began, err
		if resp != nil {
			s.timing, s.model = resp.Timing, resp.Model
		}
	}
}

// Note keeps a request to the version id that has ended, and returns its number. recording is nil unless the model is
// an ensemble.
func (r *Requests) Note(ctx context.Context, id edgewise.ModelID, req *edgewise.Request, resp *edgewise.Response,
	failure error, began time.Time, took time.Duration, recording *Recording,
) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	kept := r.place(failure)
	kept.number, kept.id, kept.model, kept.began, kept.took, kept.failure, kept.steps, kept.elements = r.number, req.ID,
		id, began, took, failure, recording, elements(req)
	kept.caller = edgewise.PrincipalOf(ctx)
	kept.inputs.keep(req.Inputs)
	kept.timing, kept.outputs.n = edgewise.Timing{}, 0
	if resp != nil {
		kept.timing = resp.Timing
		kept.outputs.keep(resp.Outputs)
	}
	return kept.number
}

// elements guesses the batch size of a request: the first dimension of its first input.
func elements(req *edgewise.Request) int {
	if len(req.Inputs) > 0 && len(req.Inputs[0].Shape) > 0 {
		return int(req.Inputs[0].Shape[0])
	}
	return 1
}

func (r *request) summary() admin.RequestSummary {
	s := admin.RequestSummary{
		Number: r.number, ID: r.id, Time: r.began.UTC(), Model: r.model.Name, Version: r.model.Version,
		Duration: micro(r.took), Batch: r.timing.Batch,
	}
	if r.caller != nil {
		s.Caller = r.caller.Actor()
	}
	if r.failure != nil {
		s.Failed, s.Code, s.Error = true, edgewise.KindOf(r.failure).String(), message(r.failure)
	}
	return s
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func message(err error) string {
	text := err.Error()
	return text[:min(len(text), maxErrorBytes)]
}

// RequestQuery selects requests.
type RequestQuery struct {
	Model  string // empty: any
	Failed bool   // only those that failed
	Slower time.Duration
	Limit  int
}

// List returns the selected requests, latest first.
func (r *Requests) List(q RequestQuery) []admin.RequestSummary {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []admin.RequestSummary{}
	for k := range r.backward() {
		if (q.Model == "" || k.model.Name == q.Model) && (!q.Failed || k.failure != nil) && k.took >= q.Slower {
			if list = append(list, k.summary()); len(list) == q.Limit {
				break
			}
		}
	}
	return list
}

// backward yields all kept requests, latest first. r.mu is held.
func (r *Requests) backward() iter.Seq[*request] {
	return func(yield func(*request) bool) {
		rings := []*ring{&r.answered, &r.failed, &r.refused}
		back := make([]int, len(rings))
		for {
			var latest *request
			from := 0
			for i, ring := range rings {
				if k := ring.latest(back[i]); k != nil && (latest == nil || k.number > latest.number) {
					latest, from = k, i
				}
			}
			if latest == nil || !yield(latest) {
				return
			}
			back[from]++
		}
	}
}

// Inputs returns the inputs of the latest request to a version that was answered and is kept; nil when there is none.
func (r *Requests) Inputs(id edgewise.ModelID) []admin.Tensor {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.backward() {
		if k.model == id && k.failure == nil {
			return k.inputs.shown()
		}
	}
	return nil
}

// Get returns one request with the spans of its parts. Errors: NotFound when it is no longer kept.
func (r *Requests) Get(number uint64) (admin.RequestDetail, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.backward() {
		if k.number == number {
			return k.detail(), nil
		}
	}
	return admin.RequestDetail{}, edgewise.Errorf("activity.Get", edgewise.NotFound,
		"request %d is not kept: only the last %d answered requests are, and the last %d failed and %d refused ones",
		number, MaxRequests, MaxFailures, MaxFailures)
}

func (r *request) detail() admin.RequestDetail {
	d := admin.RequestDetail{RequestSummary: r.summary(), Inputs: r.inputs.shown(), Outputs: r.outputs.shown()}
	d.Spans = []admin.Span{{
		Name: r.model.Name, Kind: "request", Duration: micro(r.took), Model: r.model.Name,
		Version: r.model.Version, Error: d.Error,
	}}
	if r.steps == nil {
		d.Spans = append(d.Spans, parts(0, 0, r.took, r.timing, r.elements)...)
		return d
	}
	r.steps.mu.Lock()
	defer r.steps.mu.Unlock()
	at := make([]int, len(r.steps.spans)) // of each recorded span among those that are shown
	for i, s := range r.steps.spans {
		parent := 0
		if s.parent >= 0 {
			parent = at[s.parent]
		}
		at[i] = len(d.Spans)
		shown := admin.Span{
			Name: s.model.Name, Kind: "step", Parent: &parent, Start: micro(s.began), Duration: micro(s.took),
			Model: s.model.Name, Version: s.model.Version,
			Fuel: s.timing.Guest.Fuel, Memory: s.timing.Guest.Memory,
		}
		if s.failure != nil {
			shown.Error = message(s.failure)
		}
		d.Spans = append(d.Spans, shown)
		d.Spans = append(d.Spans, parts(at[i], s.began, s.took, s.timing, 0)...)
	}
	return d
}

// parts splits a run into the times that its scheduler measured, in sequence; half of the rest stands before the queue.
func parts(parent int, began, took time.Duration, t edgewise.Timing, own int) []admin.Span {
	if t.Batch == 0 {
		return nil
	}
	measured := t.Queue + t.Input + t.Infer + t.Output
	at := began + max(0, took-measured)/2
	var list []admin.Span
	for _, part := range []struct {
		kind string
		took time.Duration
	}{{"queue", t.Queue}, {"input", t.Input}, {"infer", t.Infer}, {"output", t.Output}} {
		s := admin.Span{Name: part.kind, Kind: part.kind, Parent: &parent, Start: micro(at), Duration: micro(part.took)}
		if part.kind == "infer" {
			s.Batch, s.Own, s.Fuel, s.Memory = t.Batch, own, t.Guest.Fuel, t.Guest.Memory
		}
		if part.kind == "queue" {
			s.Waits = waits(t)
		}
		list = append(list, s)
		at += part.took
	}
	return list
}

// waits says what a request waited for in the queue.
func waits(t edgewise.Timing) []admin.Wait {
	var list []admin.Wait
	for _, w := range t.Explain() {
		list = append(list, admin.Wait{
			Cause: w.Cause, Model: w.Model.Name, Version: w.Model.Version, Requests: w.Requests, Duration: micro(w.Took),
		})
	}
	return list
}

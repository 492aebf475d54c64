package ensemble

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Config configures an Ensemble.
type Config struct {
	Infer    edgewise.Inferer              // answers for the versions of the steps
	Check    func(*edgewise.Request) error // says why a request contradicts the ensemble's inputs and outputs
	MaxQueue int                           // requests that wait at a step for max_inflight_requests; one more is refused as Busy
	Logger   *slog.Logger

	// Independent tells whether the rows of a version's batches do not depend on each other, so that a fan-out that does
	// not say rows_per_request may send several in one request; nil: those of all versions do not.
	Independent func(id edgewise.ModelID) bool

	// Pictures tells whether a version takes an input as edgewise.Pictures at this moment; nil: none does. It is cheap.
	Pictures func(id edgewise.ModelID, input string) bool
}

// Ensemble is the Servable of a version whose platform is "ensemble".
type Ensemble struct {
	config   Config
	version  *edgewise.Version
	graph    *graph
	readers  []reading // of the tensors
	gates    []*gate   // of the steps
	measured *meter

	sequences sequences

	mu     sync.Mutex // guards closed, and inside being left for the last time
	closed bool
	inside sync.WaitGroup // requests in progress
}

var _ edgewise.Servable = (*Ensemble)(nil)

// New makes v ready to answer. parts are the versions that its steps run, one for each, as Parts returns them; the
// Inferer must answer for them until Close has returned. Errors: those of Validate.
func New(v *edgewise.Version, parts []*edgewise.Version, c Config) (*Ensemble, error) {
	models := ModelsOf(parts)
	if err := Validate(v.Model, models); err != nil {
		return nil, err
	}
	g := newGraph(v.Model, models)
	g.prune()
	g.follow()
	if c.Independent != nil {
		g.separate(parts, c.Independent)
	}
	e := &Ensemble{config: c, version: v, graph: g, readers: g.readers(), measured: newMeter(g)}
	for range g.steps {
		e.gates = append(e.gates, newGate(v.Model.EnsembleScheduling.MaxInflightRequests, c.MaxQueue))
	}
	return e, nil
}

// Infer runs the steps that the wanted outputs need. It returns when all of them have returned, also when one has
// failed or ctx has ended; the steps then still in progress are canceled. An output that was not made, because a
// condition stopped its step or one before it, is left out of the response, whose parameter "stopped_at" names the
// model of that step.
//
// The responses of a decoupled ensemble go to req.Each, but for the last one; each has its outputs from one pass of the
// steps behind the decoupled one. A pass that makes none of the wanted outputs has no response. When a step fails, in
// any pass, the request fails, as in Triton.
//
// Errors: Unsupported without req.Each if the ensemble is decoupled, those of Config.Check, and those of the steps as
// "in ensemble 'E', ..." with their kind.
func (e *Ensemble) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	start := time.Now()
	if !e.enter() {
		return nil, edgewise.Errorf("ensemble.Infer", edgewise.Unavailable, "model %v is being unloaded", e.version.ID)
	}
	defer e.inside.Done()
	response, err := e.infer(ctx, req)
	if err != nil {
		e.measured.failed(time.Since(start), err)
		return nil, err
	}
	e.measured.succeeded(time.Since(start), response.Timing)
	return response, nil
}

func (e *Ensemble) infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if len(e.graph.streams) > 0 {
		if err := req.CheckEach(e.version.ID); err != nil {
			return nil, err
		}
	}
	if err := e.config.Check(req); err != nil {
		return nil, err
	}
	if req.Sequence.Active() {
		leave, err := e.sequences.enter(ctx, req.Sequence)
		defer leave()
		if err != nil {
			return nil, e.fail(err)
		}
	}
	inside, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := newReply(e, req, cancel)
	r := newRun(inside, e, req, answer)
	r.begin(ctx)
	r.others.Wait()
	if err := answer.failed(); err != nil {
		r.releaseAll()
		answer.end(nil, err)
		return nil, e.fail(err)
	}
	resp := r.response()
	answer.end(resp, nil)
	return resp, nil
}

// fail says of a step's error where it happened. Its kind stays.
func (e *Ensemble) fail(cause error) error {
	return &edgewise.Error{
		Op: "ensemble.Infer", Kind: edgewise.KindOf(cause), Model: e.version.ID,
		Err: fmt.Errorf("in ensemble '%s', %w", e.version.ID.Name, cause),
	}
}

func (e *Ensemble) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.inside.Add(1)
	return true
}

// Statistics returns what has been measured so far. The times of a request are those of its steps together, so they may
// be longer than the request took.
func (e *Ensemble) Statistics() edgewise.Statistics { return e.measured.read() }

// Close refuses new requests and waits for those in progress. Responses may be released later: their memory belongs to
// the models of the steps.
func (e *Ensemble) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.inside.Wait()
	return nil
}

// Platform is the platform of ensembles.
const Platform = "ensemble"

// Format returns the format of ensembles.
func Format() edgewise.Format {
	return edgewise.Format{Platform: Platform, Devices: []edgewise.DeviceKind{edgewise.CPU}, Answers: true}
}

// Is tells whether m declares an ensemble.
func Is(m *edgewise.Model) bool { return m.Platform == Platform || m.EnsembleScheduling != nil }

// StepModels lists the names of the models that an ensemble's steps run, each once; none for any other model.
func StepModels(m *edgewise.Model) []string {
	var names []string
	if m.EnsembleScheduling == nil {
		return nil
	}
	for _, s := range m.EnsembleScheduling.Step {
		if s.ModelName != "" && !slices.Contains(names, s.ModelName) {
			names = append(names, s.ModelName)
		}
	}
	return names
}

// Inspection returns of an ensemble what a backend reads from the file of another model.
func Inspection(m *edgewise.Model) *edgewise.Inspection {
	ins := &edgewise.Inspection{Opsets: map[string]int64{}, Operators: map[string]int{}}
	ins.Inputs, ins.Outputs = m.Tensors()
	for _, s := range m.EnsembleScheduling.Step {
		id := edgewise.ModelID{Name: s.ModelName}
		if s.Pinned != nil {
			id.Version = s.Pinned.Version
		}
		ins.Steps = append(ins.Steps, id)
	}
	return ins
}

// ModelsOf lists what versions declare, in their order.
func ModelsOf(versions []*edgewise.Version) []*edgewise.Model {
	list := make([]*edgewise.Model, len(versions))
	for i, v := range versions {
		list[i] = v.Model
	}
	return list
}

// meter adds up what happens to requests and steps.
type meter struct {
	mu    sync.Mutex // guards total, its Steps included
	total edgewise.Statistics
}

func newMeter(g *graph) *meter {
	m := &meter{}
	for i := range g.steps {
		m.total.Steps = append(m.total.Steps, edgewise.StepStatistics{Model: g.steps[i].id})
	}
	return m
}

func (m *meter) succeeded(took time.Duration, t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Executed(time.Now(), t)
	m.total.Succeeded(took, t)
}

func (m *meter) failed(took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Fail.Add(took)
	m.total.Failures[edgewise.KindOf(err)]++
}

// step changes the figures of one step.
func (m *meter) step(i int, change func(*edgewise.StepStatistics)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.total.Steps[i])
}

// responded counts a response of a decoupled ensemble; see edgewise.Statistics.
func (m *meter) responded(
	place int, made, sent time.Duration, how func(*edgewise.ResponseStatistics) *edgewise.Duration,
) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Responded(place, made, sent, how)
}

func (m *meter) read() edgewise.Statistics {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.total
	stats.Steps, stats.Batches = slices.Clone(m.total.Steps), slices.Clone(m.total.Batches)
	stats.Responses = slices.Clone(m.total.Responses)
	return stats
}

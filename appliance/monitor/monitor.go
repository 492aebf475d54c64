// Package monitor counts requests by outcome, and publishes the state of the appliance and its models.
package monitor

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/observe"
	"github.com/edgewise-ai/edgewise/appliance/tap"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// Monitor keeps the recent activity of the appliance: events, log lines, requests, and the history of an hour. Its
// methods and those of its fields are safe for concurrent use.
type Monitor struct {
	Hub      *activity.Hub
	Logs     *activity.Logs
	History  activity.History
	Requests activity.Requests
	Tap      *tap.Tap    // receives the requests of clients
	Idle     *idle.Watch // of the requests of clients
	latency  *observe.Latencies

	// Outside answers the requests of clients. It is set before the first request.
	Outside edgewise.Inferer
	// Resolve returns the version that id stands for, and whether it exists. It is set before the first request.
	Resolve func(id edgewise.ModelID) (resolved edgewise.ModelID, ok bool)

	// Reached is called after a request that named no version has come to id and ended, with its response while that is
	// there. It is set before the first request; nil: nobody needs to know.
	Reached func(
		id edgewise.ModelID, req *edgewise.Request, resp *edgewise.Response, began time.Time, took time.Duration, err error,
	)

	learned atomic.Pointer[learned]
	begun   atomic.Int64 // requests of clients
	over    atomic.Int64 // of them, that have ended
	kept    atomic.Int64 // requests kept in this second
	told    atomic.Int64 // requests published in this second
}

// learned is what the monitor knows of the stored models. It is replaced and not changed.
type learned struct {
	ensembles map[string]bool           // names of models of which a version is an ensemble
	decoupled map[edgewise.ModelID]bool // versions
}

// Bounds of the answered requests that are kept and published in a second: describing a request takes longer than a
// small model runs.
const (
	keptRequests = 100 // kept with their tensors and times; failed and refused ones are kept beyond it
	toldRequests = 10  // published
)

// New returns a Monitor that measures latencies for the metrics.
func New(latency *observe.Latencies) *Monitor {
	w := &Monitor{Hub: activity.NewHub(), latency: latency, Resolve: func(id edgewise.ModelID) (edgewise.ModelID,
		bool,
	) {
		return id, true
	}}
	w.Logs, w.Tap, w.Idle = activity.NewLogs(w.Hub.Publish), tap.New(tap.MaxBytes), idle.New(w.traffic)
	w.learned.Store(&learned{})
	return w
}

// Learn records which models are ensembles, and which versions are decoupled.
func (w *Monitor) Learn(records []*edgewise.Record) {
	l := learned{ensembles: map[string]bool{}, decoupled: map[edgewise.ModelID]bool{}}
	for _, r := range records {
		for _, v := range r.Versions {
			if ensemble.Is(v.Model) {
				l.ensembles[r.Name] = true
			}
			if v.Model.Decoupled() {
				l.decoupled[v.ID] = true
			}
		}
	}
	w.learned.Store(&l)
}

// errPanicked is the error of a request whose goroutine panics.
var errPanicked = edgewise.Errorf("monitor", edgewise.Internal, "answering the request panicked")

// Answer has Outside answer a request of a client, delivers the answer, and counts the request once by how that ended.
func (w *Monitor) Answer(ctx context.Context, req *edgewise.Request, x edgewise.Exchange) (*edgewise.Response, error) {
	end := ending{req: req, began: req.Came(), err: errPanicked, answered: true}
	if w.learned.Load().ensembles[req.Model.Name] {
		end.recording = activity.NewRecording()
		ctx = edgewise.WithRecorder(ctx, end.recording)
	}
	returned := false
	w.begun.Add(1)
	defer func() {
		if !returned {
			w.ended(ctx, &end)
		}
		w.over.Add(1)
	}()
	end.resp, end.err = x.Infer(ctx, w.Outside, req)
	returned = true
	w.ended(ctx, &end)
	if end.err != nil {
		end.resp.Release()
		return nil, end.err
	}
	return end.resp, nil
}

// traffic returns how many requests of clients have begun, and how many of them are in progress.
func (w *Monitor) traffic() (begun, open int64) {
	over := w.over.Load()
	begun = w.begun.Load()
	return begun, begun - over
}

// Refuse counts a request to id that was refused before it could run. Unauthorized requests are counted and not kept.
func (w *Monitor) Refuse(ctx context.Context, id edgewise.ModelID, took time.Duration, err error) {
	w.ended(ctx, &ending{req: &edgewise.Request{Model: id}, err: err, began: time.Now().Add(-took)})
}

// ending is a request that has ended.
type ending struct {
	req       *edgewise.Request
	resp      *edgewise.Response // also when it was not delivered; nil: none
	err       error
	began     time.Time
	recording *activity.Recording // nil: the model is no ensemble
	inside    bool                // another model sent it
	answered  bool                // a client sent it, and it was not refused before it could run
}

// subject returns the version that a request was for, and whether it came there. ok is false for an unknown version:
// names that clients make up take no memory.
func (w *Monitor) subject(e *ending) (id edgewise.ModelID, reached, ok bool) {
	if e.resp != nil {
		return e.resp.Model, true, true
	}
	id = e.req.Model
	if about, ok := errors.AsType[*edgewise.Error](e.err); ok && about.Model.Name == id.Name {
		reached = id.Version == 0 && about.Model.Version != 0
		id = about.Model
	}
	id, ok = w.Resolve(id)
	return id, reached, ok
}

// ended counts a request, also for the metrics, with one reading of the clock.
func (w *Monitor) ended(ctx context.Context, e *ending) {
	took := time.Since(e.began)
	id, reached, ok := w.subject(e)
	if !ok {
		w.History.NoteUnknown()
		return
	}
	if reached && e.req.Model.Version == 0 && w.Reached != nil {
		w.Reached(id, e.req, e.resp, e.began, took, e.err)
	}
	if e.err == nil {
		w.latency.Observe(id, took, e.resp.Timing)
	}
	o := activity.Outcome{Took: took, Err: e.err, Caller: edgewise.PrincipalOf(ctx), Inside: e.inside}
	if e.resp != nil {
		o.Queue = e.resp.Timing.Queue
	}
	if !e.inside && w.keeps(e) {
		o.Number = w.Requests.Note(ctx, id, e.req, e.resp, e.err, e.began, took, e.recording)
	}
	w.History.Note(id, o)
	if o.Number != 0 && w.told.Add(1) <= toldRequests {
		w.tellRequest(o.Number)
	}
	if e.answered && w.Tap.On() {
		w.Tap.Offer(tap.Finished{
			Model: id, Caller: o.Caller, Request: *e.req, Response: e.resp, Err: e.err, Began: e.began, Took: took,
			Decoupled: w.learned.Load().decoupled[id],
		})
	}
}

// Count sets the outcomes of the requests to a version in its statistics. Requests that did not reach its queue count,
// and a response that could not be delivered counts as a failure.
func (w *Monitor) Count(v *edgewise.Version, st *edgewise.Statistics) {
	success, fail, kinds := w.History.Totals(v.ID)
	st.Success, st.Fail, st.Failures = success, fail, edgewise.Statistics{}.Failures
	for kind, n := range kinds {
		st.Failures[kind] = n
	}
}

// keeps tells whether a request is kept with its tensors and times.
func (w *Monitor) keeps(e *ending) bool {
	if e.err != nil {
		kind := edgewise.KindOf(e.err)
		return kind != edgewise.Unauthenticated && kind != edgewise.Denied
	}
	return e.recording != nil || w.kept.Add(1) <= keptRequests
}

// Inside returns an Inferer that counts the requests that ensembles and steps send to inner.
func (w *Monitor) Inside(inner edgewise.Inferer) edgewise.Inferer { return insider{w, inner} }

// insider counts the requests between models.
type insider struct {
	watch *Monitor
	inner edgewise.Inferer
}

// Infer answers by inner, and counts the request.
func (i insider) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	end := ending{req: req, began: time.Now(), inside: true}
	end.resp, end.err = i.inner.Infer(ctx, req)
	i.watch.ended(ctx, &end)
	return end.resp, end.err
}

func (w *Monitor) tellRequest(number uint64) {
	if !w.Hub.Wanted("request") {
		return
	}
	if d, err := w.Requests.Get(number); err == nil {
		w.Hub.Publish("request", d.RequestSummary)
	}
}

// interval is the time between two reports of the state of the appliance.
const interval = time.Second

// Sources are read once a second by Run.
type Sources struct {
	Statuses   func() []edgewise.Status
	Statistics func(id edgewise.ModelID) (edgewise.Statistics, error)
	Complete   func(tick *admin.Tick) // adds the state of the machine
	Logger     *slog.Logger
}

// Run publishes the state of the appliance once a second, and changes of the state and health of versions, until ctx
// ends.
func (w *Monitor) Run(ctx context.Context, s Sources) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	states := map[edgewise.ModelID]told{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.kept.Store(0)
			w.told.Store(0)
			w.tellStates(states, s)
			tick := w.History.Tick(now, func(id edgewise.ModelID) (edgewise.Statistics, bool) {
				measured, err := s.Statistics(id)
				return measured, err == nil
			})
			s.Complete(&tick)
			w.History.Keep(&tick)
			w.Hub.Publish("statistics", tick)
		}
	}
}

// told is the published state of a version.
type told struct {
	status  edgewise.Status
	failing bool
}

// tellStates publishes the versions whose state or health differs from states, and updates states.
func (w *Monitor) tellStates(states map[edgewise.ModelID]told, sources Sources) {
	seen := map[edgewise.ModelID]bool{}
	for _, s := range sources.Statuses() {
		seen[s.ID] = true
		before, known := states[s.ID]
		now := told{s, w.History.Health(s.ID).Failing}
		states[s.ID] = now
		if !known || before.status.State != s.State || before.status.Reason != s.Reason {
			w.Hub.Publish("model", admin.ModelEvent{
				Model: s.ID.Name, Version: s.ID.Version, What: "state",
				State: s.State.String(), Reason: s.Reason,
			})
		}
		if before.failing != now.failing {
			w.tellHealth(s.ID, sources.Logger)
		}
	}
	for id := range states {
		if !seen[id] {
			delete(states, id)
			w.Hub.Publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "state", Reason: "unloaded"})
		}
	}
}

// tellHealth publishes and logs that a version fails, or no longer does.
func (w *Monitor) tellHealth(id edgewise.ModelID, logger *slog.Logger) {
	h := w.History.Health(id)
	w.Hub.Publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "health"})
	if !h.Failing {
		logger.Info("version answers again", "model", id.Name, "version", id.Version)
		return
	}
	reason := ""
	if h.LastError != nil {
		reason = h.LastError.Message
	}
	logger.Error("version fails", "model", id.Name, "version", id.Version, "failed", h.Failed, "of", h.Recent, "reason",
		reason)
}

package appliance

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/observe"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// watch is what the box remembers of what it does, for people.
type watch struct {
	hub      *activity.Hub
	logs     *activity.Logs
	history  activity.History
	requests activity.Requests
	latency  *observe.Latencies

	// resolve returns the version that a name stands for, and whether there is such a model and version.
	resolve func(id edgewise.ModelID) (resolved edgewise.ModelID, ok bool)

	ensembles atomic.Pointer[map[string]bool] // names of models of which a version is an ensemble
	kept      atomic.Int64                    // requests that were kept in this second
	told      atomic.Int64                    // and that listeners were told of
}

// Bounds of what is remembered of answered requests in a second. Describing a request takes longer than a small model runs.
const (
	keptRequests = 100 // that are kept with their tensors and times; failed and refused ones beside them
	toldRequests = 10  // that listeners are told of
)

func newWatch(latency *observe.Latencies) *watch {
	w := &watch{hub: activity.NewHub(), latency: latency, resolve: func(id edgewise.ModelID) (edgewise.ModelID, bool) { return id, true }}
	w.logs = activity.NewLogs(w.hub.Publish)
	w.ensembles.Store(&map[string]bool{})
	return w
}

// learn remembers which models are ensembles.
func (w *watch) learn(records []*edgewise.Record) {
	names := map[string]bool{}
	for _, r := range records {
		for _, v := range r.Versions {
			names[r.Name] = names[r.Name] || ensemble.Is(v.Model)
		}
	}
	w.ensembles.Store(&names)
}

// errPanicked is how a request ended whose goroutine panics.
var errPanicked = edgewise.Errorf("appliance.watch", edgewise.Internal, "answering the request panicked")

// answer has inner answer a request from outside, delivers the answer, and counts the request once by how that ended.
func (w *watch) answer(ctx context.Context, req *edgewise.Request, x edgewise.Exchange, inner edgewise.Inferer) (*edgewise.Response, error) {
	end := ending{req: req, began: req.Came(), err: errPanicked}
	if (*w.ensembles.Load())[req.Model.Name] {
		end.recording = activity.NewRecording()
		ctx = edgewise.WithRecorder(ctx, end.recording)
	}
	returned := false
	defer func() {
		if !returned {
			w.ended(ctx, &end)
		}
	}()
	end.resp, end.err = x.Infer(ctx, inner, req)
	returned = true
	w.ended(ctx, &end)
	if end.err != nil {
		end.resp.Release()
		return nil, end.err
	}
	return end.resp, nil
}

// refuse counts a request to id that did not come to be one that could run. Who is not let in is counted and not kept.
func (w *watch) refuse(ctx context.Context, id edgewise.ModelID, took time.Duration, err error) {
	w.ended(ctx, &ending{req: &edgewise.Request{Model: id}, err: err, began: time.Now().Add(-took)})
}

// ending is a request that has ended.
type ending struct {
	req       *edgewise.Request
	resp      *edgewise.Response // also of an answer that was not delivered; nil: there is none
	err       error
	began     time.Time
	recording *activity.Recording // nil: the model is no ensemble
	inside    bool                // another model made it
}

// subject returns the version that a request came to. ok is false when the client named none that exists: names that clients make
// up fill no memory.
func (w *watch) subject(e *ending) (id edgewise.ModelID, ok bool) {
	if e.resp != nil {
		return e.resp.Model, true
	}
	if id = edgewise.ModelOf(e.err); id.Name != e.req.Model.Name {
		id = e.req.Model
	}
	return w.resolve(id)
}

// ended counts a request, for the metrics too: the time is taken once.
func (w *watch) ended(ctx context.Context, e *ending) {
	took := time.Since(e.began)
	id, ok := w.subject(e)
	if !ok {
		w.history.NoteUnknown()
		return
	}
	if e.err == nil {
		w.latency.Observe(id, took, e.resp.Timing)
	}
	o := activity.Outcome{Took: took, Err: e.err, Caller: edgewise.PrincipalOf(ctx), Inside: e.inside}
	if !e.inside && w.keeps(e) {
		o.Number = w.requests.Note(ctx, id, e.req, e.resp, e.err, e.began, took, e.recording)
	}
	w.history.Note(id, o)
	if o.Number != 0 && w.told.Add(1) <= toldRequests {
		w.tellRequest(o.Number)
	}
}

// counted puts how the requests to a version ended into its statistics: also of those that did not come to its queue, and with an
// answer that could not be delivered among the failures.
func (w *watch) counted(v *edgewise.Version, st *edgewise.Statistics) {
	success, fail, kinds := w.history.Totals(v.ID)
	st.Success, st.Fail, st.Failures = success, fail, [4]uint64{}
	for kind, n := range kinds {
		reason := edgewise.FailureReasonOf(kind)
		if reason == edgewise.FailureBackend && ensemble.Is(v.Model) {
			reason = edgewise.FailureOther // the backend is a step's, which counts it
		}
		st.Failures[reason] += n
	}
}

// keeps tells whether a request is kept with its tensors and times.
func (w *watch) keeps(e *ending) bool {
	if e.err != nil {
		kind := edgewise.KindOf(e.err)
		return kind != edgewise.Unauthenticated && kind != edgewise.Denied
	}
	return e.recording != nil || w.kept.Add(1) <= keptRequests
}

// insider is the way of the requests that ensembles and steps make.
type insider struct {
	watch *watch
	inner edgewise.Inferer
}

// Infer asks inner, and counts the request.
func (i insider) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	end := ending{req: req, began: time.Now(), inside: true}
	end.resp, end.err = i.inner.Infer(ctx, req)
	i.watch.ended(ctx, &end)
	return end.resp, end.err
}

func (w *watch) tellRequest(number uint64) {
	if !w.hub.Wanted("request") {
		return
	}
	if d, err := w.requests.Get(number); err == nil {
		w.hub.Publish("request", d.RequestSummary)
	}
}

// watchEvery is how often listeners are told how things are.
const watchEvery = time.Second

// watchOver tells listeners once a second how things are, and when the state of a version has changed, until ctx ends.
func (a *App) watchOver(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	states := map[edgewise.ModelID]told{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			a.watch.kept.Store(0)
			a.watch.told.Store(0)
			a.processors.Read()
			a.tellStates(states)
			tick := a.watch.history.Tick(now, func(id edgewise.ModelID) (edgewise.Statistics, bool) {
				s, err := a.manager.Statistics(id)
				return s, err == nil
			})
			tick.Ready, tick.CPU, tick.Memory = a.engine.Ready(), a.processors.Last(), machineMemory().Box
			a.publish("statistics", tick)
		}
	}
}

// told is what listeners were told of a version.
type told struct {
	status  edgewise.Status
	failing bool
}

// tellStates tells of the versions whose state or health is another than in states, and brings that up to date.
func (a *App) tellStates(states map[edgewise.ModelID]told) {
	seen := map[edgewise.ModelID]bool{}
	for _, s := range a.manager.Statuses() {
		seen[s.ID] = true
		before, known := states[s.ID]
		now := told{s, a.watch.history.Health(s.ID).Failing}
		states[s.ID] = now
		if !known || before.status.State != s.State || before.status.Reason != s.Reason {
			a.publish("model", admin.ModelEvent{Model: s.ID.Name, Version: s.ID.Version, What: "state", State: s.State.String(), Reason: s.Reason})
		}
		if before.failing != now.failing {
			a.tellHealth(s.ID)
		}
	}
	for id := range states {
		if !seen[id] {
			delete(states, id)
			a.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "state", Reason: "unloaded"})
		}
	}
}

// tellHealth tells listeners and the log that a version fails, or does no longer.
func (a *App) tellHealth(id edgewise.ModelID) {
	h := a.watch.history.Health(id)
	a.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "health"})
	if !h.Failing {
		a.logger.Info("version answers again", "model", id.Name, "version", id.Version)
		return
	}
	reason := ""
	if h.LastError != nil {
		reason = h.LastError.Message
	}
	a.logger.Error("version fails", "model", id.Name, "version", id.Version, "failed", h.Failed, "of", h.Recent, "reason", reason)
}

// observer is what the door sees of it.
type observer struct{ *watch }

var _ httpapi.Activity = observer{}

// History returns the last span.
func (o observer) History(model string, span time.Duration) admin.History {
	return o.history.Read(model, span)
}

// Logs reads the log.
func (o observer) Logs(q httpapi.LogQuery) admin.LogPage { return o.logs.List(activity.LogQuery(q)) }

// Requests lists the latest requests.
func (o observer) Requests(q httpapi.RequestQuery) []admin.RequestSummary {
	return o.requests.List(activity.RequestQuery(q))
}

// Request explains one request.
func (o observer) Request(number uint64) (admin.RequestDetail, error) { return o.requests.Get(number) }

// Listen begins to listen.
func (o observer) Listen(owner string, topics []string, after uint64) (httpapi.Listening, bool, error) {
	l, gap, err := o.hub.Listen(owner, topics, after)
	if err != nil {
		return nil, false, err
	}
	return listening{l}, gap, nil
}

// LastEvent returns the id of the latest event.
func (o observer) LastEvent() uint64 { return o.hub.Last() }

type listening struct{ *activity.Listener }

// Next waits for an event.
func (l listening) Next(wait time.Duration) (e httpapi.Event, ok, ended bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case got, more := <-l.Events():
		return httpapi.Event(got), more, !more
	case <-timer.C:
		return e, false, false
	}
}

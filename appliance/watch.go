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
)

// watch is what the box remembers of what it does, for people.
type watch struct {
	hub      *activity.Hub
	logs     *activity.Logs
	history  activity.History
	requests activity.Requests
	latency  *observe.Latencies

	ensembles atomic.Pointer[map[string]bool] // names of models of which a version is an ensemble
	kept      atomic.Int64                    // requests that were kept in this second
	told      atomic.Int64                    // and that listeners were told of
}

// Bounds of what is remembered of answered requests in a second. Describing a request takes longer than a small model runs.
const (
	keptRequests = 100 // that are kept with their tensors and times; failed ones beside them
	toldRequests = 10  // that listeners are told of
)

func newWatch(latency *observe.Latencies) *watch {
	w := &watch{hub: activity.NewHub(), latency: latency}
	w.logs = activity.NewLogs(w.hub.Publish)
	w.ensembles.Store(&map[string]bool{})
	return w
}

// learn remembers which models are ensembles.
func (w *watch) learn(records []*edgewise.Record) {
	names := map[string]bool{}
	for _, r := range records {
		for _, v := range r.Versions {
			names[r.Name] = names[r.Name] || isEnsemble(v.Model)
		}
	}
	w.ensembles.Store(&names)
}

// infer asks inner, and remembers how that went, for the metrics too: the time is taken once.
func (w *watch) infer(ctx context.Context, req *edgewise.Request, inner edgewise.Inferer) (*edgewise.Response, error) {
	began := req.Came()
	var recording *activity.Recording
	if (*w.ensembles.Load())[req.Model.Name] {
		recording = activity.NewRecording()
		ctx = edgewise.WithRecorder(ctx, recording)
	}
	resp, err := inner.Infer(ctx, req)
	took := time.Since(began)
	if err != nil && edgewise.KindOf(err) == edgewise.NotFound {
		return resp, err // who asks for names that do not exist fills no memory
	}
	w.note(req.Model, resp, err, took, false)
	if err == nil && recording == nil && w.kept.Add(1) > keptRequests {
		return resp, nil
	}
	number := w.requests.Note(ctx, req, resp, err, began, took, recording)
	if w.told.Add(1) <= toldRequests {
		w.tellRequest(number)
	}
	return resp, err
}

// note counts a request for id: in the metrics and for the page.
func (w *watch) note(id edgewise.ModelID, resp *edgewise.Response, err error, took time.Duration, inside bool) {
	if err == nil {
		id = resp.Model
		w.latency.Observe(id, took, resp.Timing)
	}
	if id.Version != 0 {
		w.history.Note(id, took, err != nil, inside)
	}
}

// insider is the way of the requests that ensembles and steps make.
type insider struct {
	watch *watch
	inner edgewise.Inferer
}

// Infer asks inner, and remembers how that went.
func (i insider) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	began := time.Now()
	resp, err := i.inner.Infer(ctx, req)
	if err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		i.watch.note(req.Model, resp, err, time.Since(began), true)
	}
	return resp, err
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
	states := map[edgewise.ModelID]edgewise.Status{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			a.watch.kept.Store(0)
			a.watch.told.Store(0)
			a.machine.Look()
			a.tellStates(states)
			tick := a.watch.history.Tick(now, func(id edgewise.ModelID) (edgewise.Statistics, bool) {
				s, err := a.manager.Statistics(id)
				return s, err == nil
			})
			tick.Ready, tick.CPU, tick.Memory = a.engine.Ready(), a.machine.CPU().Load, a.machine.Memory().Box
			a.publish("statistics", tick)
		}
	}
}

// tellStates tells of the versions whose state is another than in states, and brings that up to date.
func (a *App) tellStates(states map[edgewise.ModelID]edgewise.Status) {
	seen := map[edgewise.ModelID]bool{}
	for _, s := range a.manager.Statuses() {
		seen[s.ID] = true
		if before, known := states[s.ID]; known && before.State == s.State && before.Reason == s.Reason {
			continue
		}
		states[s.ID] = s
		a.publish("model", admin.ModelEvent{Model: s.ID.Name, Version: s.ID.Version, What: "state", State: s.State.String(), Reason: s.Reason})
	}
	for id := range states {
		if !seen[id] {
			delete(states, id)
			a.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "state", Reason: "unloaded"})
		}
	}
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

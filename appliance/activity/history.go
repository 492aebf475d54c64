package activity

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// The history's steps and length.
const (
	StepTime = 5 * time.Second
	Steps    = 720 // an hour
	// RecentTicks are the seconds that Keep holds.
	RecentTicks = 90
	maxSeries   = 256 // versions; the least recently used are removed first
)

// History is the request rates and latencies of each version over the last hour. Note is safe for concurrent use; one
// goroutine calls Tick once a second.
type History struct {
	series atomic.Pointer[map[edgewise.ModelID]*series] // a stored map is not changed; nil: empty
	adding sync.Mutex                                   // held while the map is replaced

	unknown atomic.Uint64 // requests to models that do not exist

	mu    sync.Mutex // guards the fields of series that Tick writes, and ticks
	ticks int        // since the last step
	end   time.Time  // of the last step

	recent []admin.Tick // the latest RecentTicks, oldest first; guarded by mu
}

// series is the history of one version.
type series struct {
	id      edgewise.ModelID
	callers callers
	spent   spent
	health  health

	loaded totals // the counts when the version was loaded the last time; guarded by History.adding

	begun, stepped reading // at the last second, and the last step
	points         []point // the latest Steps, oldest first
	used           time.Time
}

// totals are the outcomes of requests and their total times.
type totals struct {
	ends          ends
	answered, not time.Duration
}

// reading is the values of the counters at one time.
type reading struct {
	times      Times
	ends       ends
	inside     ends // of these, the requests of other models
	statistics edgewise.Statistics
}

// point is one step.
type point struct {
	requests, errors, refused, pending float64
	p50, p95, p99, queue, batch        *float64
}

// Outcome is how a request ended.
type Outcome struct {
	Took   time.Duration
	Queue  time.Duration // of Took, if it was answered
	Err    error         // nil: it was answered
	Caller *edgewise.Principal
	Inside bool   // another model sent it
	Number uint64 // of the request in Requests; 0: it is not kept
}

func (o *Outcome) caller() caller {
	switch {
	case o.Inside:
		return caller{kind: InsideCallers}
	case o.Caller == nil:
		return caller{kind: o.Caller.Actor()}
	}
	return caller{o.Caller.Kind, o.Caller.Name}
}

// Note counts a request that was answered, failed or was refused.
func (h *History) Note(id edgewise.ModelID, o Outcome) {
	s := h.all()[id]
	if s == nil {
		s = h.add(id)
	}
	outcome := outcomeOf(o.Err)
	s.callers.of(o.caller()).add(outcome, o)
	s.spent.add(outcome, o.Took)
	switch {
	case outcome == answered:
		s.health.add(false)
	case !Refused(o.Err):
		s.health.last.Store(&lastError{time.Now(), edgewise.KindOf(o.Err), message(o.Err), o.Number})
		s.health.add(true)
	}
}

// Refused tells whether err says nothing about the health of the model that the request was meant for: by its
// kind, or because a step has refused its input.
func Refused(err error) bool {
	_, own := errors.AsType[*edgewise.StepRefusal](err)
	return own || edgewise.KindOf(err).Refusal()
}

// NoteUnknown counts a request to an unknown model or version.
func (h *History) NoteUnknown() { h.unknown.Add(1) }

// Unknown returns the number of requests to unknown models or versions.
func (h *History) Unknown() uint64 { return h.unknown.Load() }

// Loaded resets Totals and Health of a version that has been loaded. unverified is why no run at the load has verified
// it; empty: one has.
func (h *History) Loaded(id edgewise.ModelID, unverified string) {
	s := h.add(id)
	h.adding.Lock()
	defer h.adding.Unlock()
	s.loaded = s.totals()
	s.health.reset(unverified)
}

// Totals returns the number and times of the successful and of the other requests to a version since it was loaded, and
// the other ones by kind.
func (h *History) Totals(id edgewise.ModelID) (success, fail edgewise.Duration, kinds map[edgewise.Kind]uint64) {
	s := h.all()[id]
	kinds = map[edgewise.Kind]uint64{}
	if s == nil {
		return success, fail, kinds
	}
	h.adding.Lock()
	defer h.adding.Unlock()
	now := s.totals()
	for outcome, n := range now.ends {
		n -= s.loaded.ends[outcome]
		if outcome == answered {
			success = edgewise.Duration{Count: n, Total: now.answered - s.loaded.answered}
			continue
		}
		fail.Count += n
		if n > 0 {
			kinds[edgewise.Kind(outcome-1)] = n
		}
	}
	fail.Total = now.not - s.loaded.not
	return success, fail, kinds
}

// Health returns the health of a version, by its latest requests.
func (h *History) Health(id edgewise.ModelID) edgewise.Health {
	if s := h.all()[id]; s != nil {
		return s.health.read()
	}
	return edgewise.Health{}
}

// Outcomes returns the number of requests by caller and outcome since the start, of every version used in the last
// hour.
func (h *History) Outcomes() map[edgewise.ModelID][]edgewise.OutcomeCount {
	all := map[edgewise.ModelID][]edgewise.OutcomeCount{}
	for id, s := range h.all() {
		all[id] = s.callers.list()
	}
	return all
}

// totals reads the counters.
func (s *series) totals() totals {
	all, _ := s.callers.read()
	return totals{all, time.Duration(s.spent.answered.Load()), time.Duration(s.spent.not.Load())}
}

func (h *History) all() map[edgewise.ModelID]*series {
	if m := h.series.Load(); m != nil {
		return *m
	}
	return nil
}

// add returns the series of a version, and makes it if it is missing.
func (h *History) add(id edgewise.ModelID) *series {
	h.adding.Lock()
	defer h.adding.Unlock()
	if s := h.all()[id]; s != nil {
		return s
	}
	more := map[edgewise.ModelID]*series{id: {id: id}}
	maps.Copy(more, h.all())
	h.series.Store(&more)
	return more[id]
}

// remove forgets versions.
func (h *History) remove(gone []edgewise.ModelID) {
	h.adding.Lock()
	defer h.adding.Unlock()
	less := maps.Clone(h.all())
	for _, id := range gone {
		delete(less, id)
	}
	h.series.Store(&less)
}

// Tick reads the counters and returns the rates and latencies since the last Tick, without the state of the machine.
// statistics returns the statistics of a version's scheduler; ok is false when it is not loaded.
func (h *History) Tick(now time.Time, statistics func(id edgewise.ModelID) (s edgewise.Statistics,
	ok bool),
) admin.Tick {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticks++
	step := h.ticks == int(StepTime/time.Second)
	if step {
		h.ticks, h.end = 0, now
	}
	tick := admin.Tick{Time: now.UTC(), Models: []admin.TickModel{}}
	for _, s := range h.all() {
		r := s.reading()
		r.statistics, _ = statistics(s.id)
		p := between(&s.begun, &r, time.Second)
		all, failed, refused := since(&s.begun.inside, &r.inside)
		tick.Requests += max(p.requests-all, 0)
		tick.Errors += max(p.errors-failed, 0)
		tick.Refused += max(p.refused-refused, 0)
		s.begun = r
		if p.requests > 0 {
			s.used = now
		}
		tick.Models = append(tick.Models, admin.TickModel{
			Model: s.id.Name, Version: s.id.Version, Requests: p.requests, Errors: p.errors, Refused: p.refused, P50: p.p50,
			P95: p.p95, P99: p.p99, Queue: p.queue, Batch: p.batch, Pending: p.pending,
		})
		if step {
			s.points = append(s.points, between(&s.stepped, &r, StepTime))
			if len(s.points) > Steps {
				s.points = slices.Delete(s.points, 0, len(s.points)-Steps)
			}
			s.stepped = r
		}
	}
	if step {
		h.forget(now)
	}
	slices.SortFunc(tick.Models, func(a, b admin.TickModel) int {
		return cmp.Or(strings.Compare(a.Model, b.Model), cmp.Compare(a.Version, b.Version))
	})
	return tick
}

// reading reads the counters. A request that is being noted may be in some of them only.
func (s *series) reading() (r reading) {
	r.times = s.callers.times()
	r.ends, r.inside = s.callers.read()
	return r
}

// forget removes the versions not used within the length of the history, and those over maxSeries. h.mu is held.
func (h *History) forget(now time.Time) {
	var kept []*series
	var gone []edgewise.ModelID
	for id, s := range h.all() {
		if !s.used.IsZero() && now.Sub(s.used) > StepTime*Steps {
			gone = append(gone, id)
		} else {
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b *series) int { return b.used.Compare(a.used) })
	for _, s := range kept[min(len(kept), maxSeries):] {
		gone = append(gone, s.id)
	}
	if len(gone) > 0 {
		h.remove(gone)
	}
}

// between returns the rates and latencies between two readings. The statistics of a version start at 0 at each load.
func between(a, b *reading, span time.Duration) point {
	seconds := span.Seconds()
	all, failed, refused := since(&a.ends, &b.ends)
	times := b.times.since(&a.times)
	p := point{
		requests: all / seconds, errors: failed / seconds, refused: refused / seconds,
		pending: float64(max(0, b.statistics.Pending)),
		p50:     times.Percentile(0.50), p95: times.Percentile(0.95), p99: times.Percentile(0.99),
	}
	x, y := a.statistics, b.statistics
	if y.ExecutionCount < x.ExecutionCount || y.Queue.Count < x.Queue.Count {
		x = edgewise.Statistics{}
	}
	if n := y.Queue.Count - x.Queue.Count; n > 0 {
		mean := float64((y.Queue.Total - x.Queue.Total).Microseconds()) / float64(n)
		p.queue = &mean
	}
	if n := y.ExecutionCount - x.ExecutionCount; n > 0 {
		mean := float64(y.InferenceCount-x.InferenceCount) / float64(n)
		p.batch = &mean
	}
	return p
}

// since returns the number of requests that ended between two readings, that failed, and that were refused.
func since(a, b *ends) (all, failed, refused float64) {
	var between ends
	for i := range b {
		between[i] = b[i] - a[i]
	}
	x, y, z := between.sums()
	return float64(x), float64(y), float64(z)
}

// Sample is what was counted of one version and caller between two calls of Take.
type Sample struct {
	Model                     edgewise.ModelID
	Caller                    string // as Actor names it; InsideCallers: other models
	Requests, Failed, Refused uint64
	Queue                     time.Duration // of the answered requests together
	Times                     Times         // of the answered requests
}

// Take returns what was counted since it was called before, of the versions and callers that sent requests. It has one
// caller.
func (h *History) Take() []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Sample
	for id, s := range h.all() {
		for who, t := range s.callers.all() {
			if sample, ok := t.take(); ok {
				sample.Model, sample.Caller = id, who.String()
				list = append(list, sample)
			}
		}
	}
	return list
}

// Keep holds a second that was told for Recent, without the versions that had nothing to do.
func (h *History) Keep(tick *admin.Tick) {
	kept := *tick
	kept.Models = []admin.TickModel{}
	for _, m := range tick.Models {
		if m.Requests > 0 || m.Pending > 0 {
			kept.Models = append(kept.Models, m)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.recent) == RecentTicks {
		h.recent = slices.Delete(h.recent, 0, 1)
	}
	h.recent = append(h.recent, kept)
}

// Recent returns the seconds that Keep holds, oldest first.
func (h *History) Recent() []admin.Tick {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]admin.Tick{}, h.recent...)
}

// Read returns the last span of the history, of one model or of all for "".
func (h *History) Read(model string, span time.Duration) admin.History {
	n := min(Steps, max(1, int(span/StepTime)))
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.end
	if end.IsZero() {
		end = time.Now()
	}
	out := admin.History{End: end.UTC(), StepSeconds: int(StepTime / time.Second), Series: []admin.Series{}}
	for _, s := range h.all() {
		if model == "" || s.id.Name == model {
			out.Series = append(out.Series, s.read(n))
		}
	}
	slices.SortFunc(out.Series, func(a, b admin.Series) int {
		return cmp.Or(strings.Compare(a.Model, b.Model), cmp.Compare(a.Version, b.Version))
	})
	return out
}

func (s *series) read(n int) admin.Series {
	out := admin.Series{
		Model: s.id.Name, Version: s.id.Version, Requests: make([]float64, n), Errors: make([]float64, n),
		Refused: make([]float64, n), Pending: make([]float64, n), Batches: []admin.BatchCount{}, Outcomes: s.callers.list(),
		P50: make([]*float64, n), P95: make([]*float64, n), P99: make([]*float64, n), Queue: make([]*float64, n),
		Batch: make([]*float64, n),
	}
	points := s.points[max(0, len(s.points)-n):]
	for i, p := range points {
		at := n - len(points) + i
		out.Requests[at], out.Errors[at], out.Refused[at], out.Pending[at] = p.requests, p.errors, p.refused, p.pending
		out.P50[at], out.P95[at], out.P99[at], out.Queue[at], out.Batch[at] = p.p50, p.p95, p.p99, p.queue, p.batch
	}
	for _, b := range s.begun.statistics.Batches {
		out.Batches = append(out.Batches, admin.BatchCount{Size: b.Size, Count: b.ComputeInfer.Count})
	}
	return out
}

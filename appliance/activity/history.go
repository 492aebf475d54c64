package activity

import (
	"cmp"
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
	StepTime  = 5 * time.Second
	Steps     = 720 // an hour
	maxSeries = 256 // versions; those asked longest ago go first
)

// History is how fast each version was over the last hour. Note may be called by anybody at any time; Tick by one goroutine,
// once a second.
type History struct {
	series atomic.Pointer[map[edgewise.ModelID]*series] // a map is not changed once it is there; nil: empty
	adding sync.Mutex                                   // held while it is replaced

	mu    sync.Mutex // guards what Tick keeps in series, and ticks
	ticks int        // since the last step
	end   time.Time  // of the last step
}

// series is one version.
type series struct {
	id     edgewise.ModelID
	times  histogram
	failed atomic.Uint64
	inside struct{ all, failed atomic.Uint64 } // of these, what was asked for inside the box

	begun, stepped reading // at the last second, and the last step
	points         []point // the latest Steps, oldest first
	used           time.Time
}

// reading is what the counters say at one moment.
type reading struct {
	times      counts
	failed     uint64
	inside     struct{ all, failed uint64 }
	statistics edgewise.Statistics
}

// point is one step.
type point struct {
	requests, errors, pending   float64
	p50, p95, p99, queue, batch *float64
}

// Note counts a request that was answered, or failed. inside tells that an ensemble or a step made it.
func (h *History) Note(id edgewise.ModelID, took time.Duration, failed, inside bool) {
	s := h.all()[id]
	if s == nil {
		s = h.add(id)
	}
	if inside {
		s.inside.all.Add(1)
	}
	if inside && failed {
		s.inside.failed.Add(1)
	}
	if failed {
		s.failed.Add(1)
		return
	}
	s.times.add(took)
}

func (h *History) all() map[edgewise.ModelID]*series {
	if m := h.series.Load(); m != nil {
		return *m
	}
	return nil
}

// add returns the series of a version, which it makes unless somebody was faster.
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

// Tick reads the counters and returns what was measured since the last Tick, without what is said of the whole box. statistics
// returns what a version's scheduler has measured; ok is false when it is not loaded.
func (h *History) Tick(now time.Time, statistics func(id edgewise.ModelID) (s edgewise.Statistics, ok bool)) admin.Tick {
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
		tick.Requests += max(p.requests-float64(r.inside.all-s.begun.inside.all), 0)
		tick.Errors += max(p.errors-float64(r.inside.failed-s.begun.inside.failed), 0)
		s.begun = r
		if p.requests+p.errors > 0 {
			s.used = now
		}
		tick.Models = append(tick.Models, admin.TickModel{
			Model: s.id.Name, Version: s.id.Version, Requests: p.requests, Errors: p.errors, P50: p.p50, P95: p.p95, P99: p.p99, Queue: p.queue, Batch: p.batch, Pending: p.pending,
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
	r.inside.all, r.inside.failed = s.inside.all.Load(), s.inside.failed.Load()
	r.times, r.failed = s.times.read(), s.failed.Load()
	return r
}

// forget removes the versions that were not asked for the whole time, and those over maxSeries. h.mu is held.
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

// between is what happened between two readings. A version that was loaded again counts from 0.
func between(a, b *reading, span time.Duration) point {
	seconds := span.Seconds()
	answered := uint64(0)
	for i := range b.times {
		answered += b.times[i] - a.times[i]
	}
	p := point{
		requests: float64(answered+b.failed-a.failed) / seconds, errors: float64(b.failed-a.failed) / seconds, pending: float64(max(0, b.statistics.Pending)),
		p50: percentile(&a.times, &b.times, 0.50), p95: percentile(&a.times, &b.times, 0.95), p99: percentile(&a.times, &b.times, 0.99),
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
		Model: s.id.Name, Version: s.id.Version, Requests: make([]float64, n), Errors: make([]float64, n), Pending: make([]float64, n), Batches: []admin.BatchCount{},
		P50: make([]*float64, n), P95: make([]*float64, n), P99: make([]*float64, n), Queue: make([]*float64, n), Batch: make([]*float64, n),
	}
	points := s.points[max(0, len(s.points)-n):]
	for i, p := range points {
		at := n - len(points) + i
		out.Requests[at], out.Errors[at], out.Pending[at] = p.requests, p.errors, p.pending
		out.P50[at], out.P95[at], out.P99[at], out.Queue[at], out.Batch[at] = p.p50, p.p95, p.p99, p.queue, p.batch
	}
	for _, b := range s.begun.statistics.Batches {
		out.Batches = append(out.Batches, admin.BatchCount{Size: b.Size, Count: b.ComputeInfer.Count})
	}
	return out
}

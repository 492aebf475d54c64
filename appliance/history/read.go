package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// Bounds of a Query.
const (
	MaxSteps  = 1500
	MaxSeries = 50             // those with the most requests
	MaxRange  = 31 * 24 * 3600 // seconds
	FineRange = 49 * 3600      // seconds: how far back steps reach that are not whole hours
)

// How requests are split into series.
const (
	ByTotal   = "total"
	ByModel   = "model"
	ByVersion = "version"
	ByCaller  = "caller"
)

// Query selects what Read returns. Range, Step and Ago are seconds.
type Query struct {
	Range, Step, Ago int64
	Model            string // empty: all models; requests from other models are then left out of ByTotal and ByCaller
	Version          int64  // of Model; 0: all
	Caller           string // empty: all
	By               string // one of the By constants
}

// check returns an error when q is out of bounds. Errors: Invalid.
func (q *Query) check() error {
	const op = "history.Read"
	switch {
	case q.Step < 60 || q.Step%60 != 0:
		return edgewise.Errorf(op, edgewise.Invalid, "step is %d s: want a multiple of 60", q.Step)
	case q.Range < q.Step || q.Range > MaxRange || q.Range%q.Step != 0:
		return edgewise.Errorf(op, edgewise.Invalid, "seconds is %d: want a multiple of the step, %d, of at most %d", q.Range,
			q.Step, MaxRange)
	case q.Range/q.Step > MaxSteps:
		return edgewise.Errorf(op, edgewise.Invalid, "the range has %d steps: want at most %d", q.Range/q.Step, MaxSteps)
	case q.Ago < 0 || q.Ago > MaxRange || q.Ago%q.Step != 0:
		return edgewise.Errorf(op, edgewise.Invalid, "ago is %d s: want a multiple of the step, %d, of at most %d", q.Ago,
			q.Step, MaxRange)
	case !q.coarse() && q.Range+q.Ago > FineRange:
		return edgewise.Errorf(op, edgewise.Invalid, "steps of %d s reach %d s back, not %d: longer ones are multiples of %d s",
			q.Step, FineRange, q.Range+q.Ago, int64(Hour/time.Second))
	case q.By != ByTotal && q.By != ByModel && q.By != ByVersion && q.By != ByCaller:
		return edgewise.Errorf(op, edgewise.Invalid, "by is %.40q: want total, model, version or caller", q.By)
	}
	return nil
}

// coarse tells whether hours are fine enough for the steps.
func (q *Query) coarse() bool { return q.Step%int64(Hour/time.Second) == 0 }

// series is one line of an answer.
type series struct {
	id     edgewise.ModelID
	caller string
}

func (s series) whole() series { return s }

// split returns the series that a version's requests of a caller belong to.
func (q *Query) split(s series) series {
	switch q.By {
	case ByModel:
		return series{id: edgewise.ModelID{Name: s.id.Name}}
	case ByVersion:
		return series{id: s.id}
	case ByCaller:
		return series{caller: s.caller}
	}
	return series{}
}

// wants tells whether a record of a model is selected.
func (q *Query) wants(model string, v *record) bool {
	if q.Model == "" && (q.By == ByTotal || q.By == ByCaller) && string(v.caller) == activity.InsideCallers {
		return false
	}
	return (q.Model == "" || q.Model == model) && (q.Version == 0 || q.Version == v.version) &&
		(q.Caller == "" || q.Caller == string(v.caller))
}

// merger adds records by series.
type merger struct {
	wants func(model string, r *record) bool // nil: all
	split func(series) series
	found map[series]*sums
	only  map[series]bool // nil: all
	count map[series]uint64
	names map[string]string
	named func(model string, at int64) string // nil: models have the names that are written
	buf   []byte
}

// merge adds the records of a frame to found; with count it counts their requests instead.
func (m *merger) merge(r *ring, p place) {
	m.buf = r.read(p, m.buf)
	records := reader{rest: m.buf}
	for {
		v, ok := records.next()
		if !ok {
			return
		}
		name := m.intern(v.model)
		if m.named != nil {
			name = m.named(name, p.start)
		}
		if m.wants != nil && !m.wants(name, &v) {
			continue
		}
		key := m.split(series{edgewise.ModelID{Name: name, Version: v.version}, m.intern(v.caller)})
		switch {
		case m.count != nil:
			m.count[key] += v.requests
		case m.only == nil || m.only[key]:
			s := m.found[key]
			if s == nil {
				s = &sums{}
				m.found[key] = s
			}
			s.add(&v)
		}
	}
}

func (m *merger) intern(name []byte) string {
	if s, ok := m.names[string(name)]; ok {
		return s
	}
	if m.names == nil {
		m.names = map[string]string{}
	}
	s := string(name)
	m.names[s] = s
	return s
}

// frame is a place in one of the rings.
type frame struct {
	place
	ring *ring
}

// Read returns rates and latencies by steps. Errors: Invalid.
func (h *History) Read(q Query) (out admin.StoredHistory, err error) {
	if err := q.check(); err != nil {
		return out, err
	}
	step := q.Step
	end := (h.config.Now().Unix()+step-1)/step*step - q.Ago
	out = admin.StoredHistory{
		From: time.Unix(end-q.Range, 0).UTC(), To: time.Unix(end, 0).UTC(), StepSeconds: int(step),
		Measured: make([]int64, q.Range/step), Series: []admin.StoredSeries{},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	frames := h.between(q.coarse(), end-q.Range, end)
	m := merger{wants: q.wants, split: q.split, found: map[series]*sums{}, named: h.config.Named}
	chosen, left := m.choose(frames)
	if q.By == ByTotal {
		chosen = []series{{}} // also without a request
	}
	out.LeftOut = left
	at := map[series]int{}
	for _, key := range chosen {
		at[key] = len(out.Series)
		out.Series = append(out.Series, newSeries(key, len(out.Measured)))
	}
	for len(frames) > 0 {
		i := (frames[0].start - (end - q.Range)) / step
		n := slices.IndexFunc(frames, func(f frame) bool { return (f.start-(end-q.Range))/step != i })
		if n < 0 {
			n = len(frames)
		}
		for _, f := range frames[:n] {
			out.Measured[i] += int64(f.seconds)
			m.merge(f.ring, f.place)
		}
		for key, s := range m.found {
			s.show(&out.Series[at[key]], int(i), cmp.Or(out.Measured[i], step)) // 0: that frame is damaged
		}
		clear(m.found)
		frames = frames[n:]
	}
	fillIdle(&out)
	return out, nil
}

// between returns the frames between two times, by time. The hours that are not written yet are those of their
// minutes. h.mu is held.
func (h *History) between(coarse bool, from, to int64) []frame {
	var list []frame
	add := func(r *ring, after uint64) {
		for _, p := range r.frames {
			if p.number > after && p.start >= from && p.start < to {
				list = append(list, frame{p, r})
			}
		}
	}
	switch {
	case h.minutes == nil || h.hours == nil:
	case coarse:
		add(h.hours, 0)
		add(h.minutes, h.hours.finished())
	default:
		add(h.minutes, 0)
	}
	slices.SortStableFunc(list, func(a, b frame) int { return cmp.Compare(a.start, b.start) })
	return list
}

// choose returns the MaxSeries series with the most requests, by name, and the number of the others.
func (m *merger) choose(frames []frame) (chosen []series, left int) {
	m.count = map[series]uint64{}
	for _, f := range frames {
		m.merge(f.ring, f.place)
	}
	for key := range m.count {
		chosen = append(chosen, key)
	}
	slices.SortFunc(chosen, func(a, b series) int {
		return cmp.Or(cmp.Compare(m.count[b], m.count[a]), a.compare(b))
	})
	left = max(0, len(chosen)-MaxSeries)
	chosen = chosen[:len(chosen)-left]
	slices.SortFunc(chosen, series.compare)
	m.count, m.only = nil, map[series]bool{}
	for _, key := range chosen {
		m.only[key] = true
	}
	return chosen, left
}

func (s series) compare(o series) int {
	return cmp.Or(strings.Compare(s.id.Name, o.id.Name), cmp.Compare(s.id.Version, o.id.Version),
		strings.Compare(s.caller, o.caller))
}

func newSeries(key series, n int) admin.StoredSeries {
	none := func() []*float64 { return make([]*float64, n) }
	return admin.StoredSeries{
		Model: key.id.Name, Version: key.id.Version, Caller: key.caller,
		Requests: none(), Errors: none(), Refused: none(), P50: none(), P95: none(), P99: none(), Queue: none(),
	}
}

// show writes the sums of a step, of which some seconds were measured.
func (s *sums) show(out *admin.StoredSeries, i int, seconds int64) {
	rate := func(n uint64) *float64 { return new(float64(n) / float64(seconds)) }
	out.Requests[i], out.Errors[i], out.Refused[i] = rate(s.requests), rate(s.failed), rate(s.refused)
	out.P50[i], out.P95[i], out.P99[i] = s.times.Percentile(0.50), s.times.Percentile(0.95), s.times.Percentile(0.99)
	if n := s.requests - s.failed - s.refused; n > 0 {
		out.Queue[i] = new(float64(s.queue.Microseconds()) / float64(n))
	}
}

// fillIdle sets the rates of the steps in which the appliance ran and had no request to 0.
func fillIdle(h *admin.StoredHistory) {
	for i, seconds := range h.Measured {
		for s := range h.Series {
			if seconds > 0 && h.Series[s].Requests[i] == nil {
				h.Series[s].Requests[i], h.Series[s].Errors[i], h.Series[s].Refused[i] = new(0.0), new(0.0), new(0.0)
			}
		}
	}
}

package rollout

import (
	"fmt"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// arm is what was counted of one version.
type arm struct {
	Requests uint64         `json:"requests"`
	Errors   uint64         `json:"errors"` // of these, that were not answered
	Failures uint64         `json:"failures"`
	Times    activity.Times `json:"times"` // of the answered requests
}

// slowest are the quantiles of the live version's latencies above which a request is slow: of most, some and few
// requests, because a candidate may be slower in any of these ways.
func slowest() [3]float64 { return [3]float64{0.5, 0.9, 0.99} }

// measured is all that is measured of a rollout. It is stored.
type measured struct {
	Live      arm         `json:"live"`
	Candidate arm         `json:"candidate"`
	Stage     uint64      `json:"stage"` // requests to the candidate in the stage
	Errors    evidence    `json:"errors"`
	Slow      [3]evidence `json:"slow"`
	Late      evidence    `json:"late"`      // errors in the watch
	LateSlow  evidence    `json:"late_slow"` // slow requests in the watch
	Shadow    shadowed    `json:"shadow"`
	Metric    metered     `json:"metric"`
}

func newMeasured() measured {
	m := measured{
		Errors: newEvidence(errorOdds()), Late: newEvidence(errorOdds()), LateSlow: newEvidence(slowOdds()),
		Shadow: shadowed{Differ: newEvidence(errorOdds())},
		Metric: metered{Drawn: newEvidence(fractions()), Paired: newEvidence(fractions())},
	}
	for i := range m.Slow {
		m.Slow[i] = newEvidence(slowOdds())
	}
	return m
}

// resume makes stored measurements go on.
func (m measured) resume() measured {
	m.Errors, m.Late, m.LateSlow = m.Errors.resume(errorOdds()), m.Late.resume(errorOdds()), m.LateSlow.resume(slowOdds())
	m.Shadow.Differ = m.Shadow.Differ.resume(errorOdds())
	m.Metric.Drawn, m.Metric.Paired = m.Metric.Drawn.resume(fractions()), m.Metric.Paired.resume(fractions())
	for i := range m.Slow {
		m.Slow[i] = m.Slow[i].resume(slowOdds())
	}
	return m
}

// Bounds of what is measured.
const (
	fewestTimes = 100 // latencies of the live version before a request can be slow
	everyTimes  = 64  // latencies after which the quantiles are computed again
	leastRate   = 0.005
	mostRate    = 0.2
)

// The kinds of evidence, each of which has the same part of the chance of a false alarm: errors, slow requests and
// disagreement in the stages, and the first two in the watch; with a metric that of clients' answers and of the shadow's.
const (
	kinds       = 5
	metricKinds = 2
)

// boundOf returns the value at which evidence of a plan takes the candidate back.
func boundOf(p *admin.RolloutPlan) float64 {
	n := kinds
	if p.Metric != nil {
		n += metricKinds
	}
	return float64(n) * 100 / *p.FalseAlarmPercent
}

// trial measures a rollout in progress. It is safe for concurrent use.
type trial struct {
	live, candidate int64
	bound           float64       // value of evidence at which the candidate is taken back
	slower          float64       // part by which a request to the candidate may take longer
	longer          time.Duration // and time, if that is more
	disagree        float64       // part of the answers of a shadow that may differ
	metric          *metric       // nil: the plan has none
	breached        func()        // is called once, without locks

	mu       sync.Mutex // guards what follows
	m        measured
	counting bool
	since    time.Time // requests that came before do not count
	share    float64
	watch    *reference // nil: not in the watch
	limits   [3]time.Duration
	breach   string
}

// reference is what the candidate is held against when nothing goes to the live version any more.
type reference struct {
	errors  float64 // at most this part of the requests fails
	limit   time.Duration
	slowest float64 // at most this part takes longer than limit; 0: it is not known
}

// count makes requests that come from now on count, of which a share goes to the candidate; in the watch all do.
func (t *trial) count(now time.Time, share float64, watch bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting, t.since, t.share, t.watch = true, now, share, nil
	t.refer()
	if watch {
		t.watch = t.m.reference(t.slower, t.longer)
	}
}

// pause makes no request count.
func (t *trial) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting = false
}

// stage begins to count a stage of a number of them.
func (t *trial) stage(of int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m.Stage = 0
	t.m.Errors.stake(1 / float64(of))
	t.m.Shadow.Differ.stake(1 / float64(of))
	t.m.Metric.Drawn.stake(1 / float64(of))
	t.m.Metric.Paired.stake(1 / float64(of))
	for i := range t.m.Slow {
		t.m.Slow[i].stake(1 / float64(of))
	}
}

// stakeLate bets the next part of the evidence in the watch.
func (t *trial) stakeLate(part float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.m.Late.stake(part)
	t.m.LateSlow.stake(part)
}

// observe counts a request that named no version and has come to one, with the value of the metric of its answer.
func (t *trial) observe(version int64, began time.Time, took time.Duration, err error, value float64) {
	t.mu.Lock()
	first := t.add(version, began, took, err, value) && t.breach == "" && t.judge()
	t.mu.Unlock()
	if first {
		t.breached()
	}
}

// add counts a request, and tells whether the evidence has grown. t.mu is held.
func (t *trial) add(version int64, began time.Time, took time.Duration, err error, value float64) bool {
	candidate := version == t.candidate
	if !t.counting || began.Before(t.since) || !candidate && version != t.live {
		return false
	}
	at, of := began.Add(took), &t.m.Live
	if candidate {
		of = &t.m.Candidate
		t.m.Stage++
	}
	of.Requests++
	failed := err != nil && !activity.Refused(err)
	switch {
	case err == nil:
		of.Times.Add(took)
	case failed:
		of.Failures++
		fallthrough
	default:
		of.Errors++
	}
	switch {
	case t.watch != nil:
		return candidate && t.addLate(at, took, err == nil, failed)
	case err != nil:
		return t.m.Errors.compare(at, t.share, candidate)
	}
	if !candidate && (t.m.Live.Requests-t.m.Live.Errors)%everyTimes == 0 {
		t.refer()
	}
	grown := t.metric != nil && t.m.Metric.draw(value, t.share, t.metric.by, candidate)
	return t.addTime(at, took, candidate) || grown
}

// addTime counts a request that was answered. t.mu is held.
func (t *trial) addTime(at time.Time, took time.Duration, candidate bool) (grown bool) {
	for i, limit := range t.limits {
		if candidate {
			limit = t.allowed(limit, t.slower)
		}
		if t.limits[i] > 0 && took > limit {
			grown = t.m.Slow[i].compare(at, t.share, candidate) || grown
		}
	}
	return grown
}

// addLate counts a request of the watch. t.mu is held.
func (t *trial) addLate(at time.Time, took time.Duration, answered, failed bool) (grown bool) {
	if answered || failed {
		grown = t.m.Late.rate(at, t.watch.errors, failed)
	}
	if answered {
		grown = t.m.LateSlow.rate(at, t.watch.slowest, took > t.watch.limit) || grown
	}
	return grown
}

// allowed returns how long a request may take to the candidate where it takes limit to the live version.
func (t *trial) allowed(limit time.Duration, slower float64) time.Duration {
	return limit + max(time.Duration(float64(limit)*slower), t.longer)
}

// refer computes which requests are slow. t.mu is held.
func (t *trial) refer() {
	if t.m.Live.Requests-t.m.Live.Errors < fewestTimes {
		return
	}
	for i, q := range slowest() {
		if at := t.m.Live.Times.Percentile(q); at != nil {
			t.limits[i] = time.Duration(*at * float64(time.Microsecond))
		}
	}
}

// reference returns what the stages have shown of the live version. Nothing is compared at the same time any more, so
// the margin of latency is twice as wide.
func (m *measured) reference(slower float64, longer time.Duration) *reference {
	r := &reference{errors: min(max(upperBound(m.Live.Failures, m.Live.Requests), leastRate), mostRate)}
	n := m.Live.Requests - m.Live.Errors
	if p99 := m.Live.Times.Percentile(0.99); p99 != nil && n >= fewestTimes {
		limit := time.Duration(*p99 * float64(time.Microsecond))
		r.limit = limit + max(time.Duration(2*slower*float64(limit)), 2*longer)
		r.slowest = min(upperBound(n/100+1, n), mostRate)
	}
	return r
}

// judge looks whether the evidence has reached a bound, and tells whether it has. t.mu is held.
func (t *trial) judge() bool {
	for _, e := range t.m.evidence(t.bound, t.watch != nil) {
		if e.Value >= e.Bound {
			t.breach = t.explain(e)
		}
	}
	return t.breach != ""
}

// evidence lists what speaks against the candidate.
func (m *measured) evidence(bound float64, watch bool) []admin.RolloutEvidence {
	if watch {
		return []admin.RolloutEvidence{
			{Condition: admin.RolloutErrors, Value: m.Late.value(), Bound: bound},
			{Condition: admin.RolloutLatency, Value: m.LateSlow.value(), Bound: bound},
		}
	}
	slow := 0.0 // the mean of martingales is one
	for i := range m.Slow {
		slow += m.Slow[i].value() / float64(len(m.Slow))
	}
	list := []admin.RolloutEvidence{
		{Condition: admin.RolloutErrors, Value: m.Errors.value(), Bound: bound},
		{Condition: admin.RolloutLatency, Value: slow, Bound: bound},
	}
	if m.Shadow.Compared > 0 {
		list = append(list, admin.RolloutEvidence{
			Condition: admin.RolloutDisagreement, Value: m.Shadow.Differ.value(), Bound: bound,
		})
	}
	if m.Metric.Live.N+m.Metric.Candidate.N+m.Metric.Before.N > 0 {
		list = append(list, admin.RolloutEvidence{
			Condition: admin.RolloutMetric, Value: m.Metric.value(), Bound: bound,
		})
	}
	return list
}

// explain says why a rollout goes back. t.mu is held.
func (t *trial) explain(e admin.RolloutEvidence) string {
	m := &t.m
	switch e.Condition {
	case admin.RolloutDisagreement:
		return m.Shadow.explain()
	case admin.RolloutMetric:
		return t.metric.explain(&m.Metric)
	}
	c, l := m.Candidate.shown(), m.Live.shown()
	if e.Condition == admin.RolloutErrors {
		return fmt.Sprintf("error rate: %d of %d requests to the candidate failed, and %d of %d to the version before it",
			c.Errors, c.Requests, l.Errors, l.Requests)
	}
	ms := func(us *float64) float64 {
		if us == nil {
			return 0
		}
		return *us / 1000
	}
	return fmt.Sprintf("latency: p50 and p99 of the candidate are %.1f and %.1f ms, and %.1f and %.1f ms of the version "+
		"before it", ms(c.P50), ms(c.P99), ms(l.P50), ms(l.P99))
}

// shown describes an arm.
func (a *arm) shown() admin.RolloutArm {
	return admin.RolloutArm{
		Requests: a.Requests, Errors: a.Errors, P50: a.Times.Percentile(0.5), P99: a.Times.Percentile(0.99),
	}
}

// read returns what was measured, and why the rollout has to go back, "" while it has not.
func (t *trial) read() (m measured, breach string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m = t.m
	return m.clone(), t.breach
}

// clone returns a copy that shares nothing.
func (m measured) clone() measured {
	for _, e := range []*evidence{
		&m.Errors, &m.Slow[0], &m.Slow[1], &m.Slow[2], &m.Late, &m.LateSlow, &m.Shadow.Differ, &m.Metric.Drawn,
		&m.Metric.Paired,
	} {
		e.Parts = append([]float64{}, e.Parts...)
	}
	return m
}

// fail makes the rollout go back for a reason that is no evidence.
func (t *trial) fail(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.breach == "" {
		t.breach = reason
	}
}

package rollout

import (
	"fmt"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/scalar"
)

// Bounds of a metric.
const (
	maxMetricName = 256     // bytes of its name and of its output's
	maxElements   = 1 << 20 // of an output that is measured
)

// metric is the metric of a plan. Within this package its values go from 0 at best to 1 at worst.
type metric struct {
	admin.OutputMetric
	by    float64 // by which the candidate's may be worse on average
	drawn bool    // requests are drawn each for itself, so that those of both versions are alike
}

// newMetric returns the metric of a plan, nil when it has none.
func newMetric(p *admin.RolloutPlan) *metric {
	if p.Metric == nil {
		return nil
	}
	return &metric{OutputMetric: *p.Metric, by: p.Metric.By / (p.Metric.High - p.Metric.Low), drawn: p.Sticky == ""}
}

// unmeasured is the value of an answer that is not measured.
func unmeasured() float64 { return math.NaN() }

// client returns the value of an answer to a client, and of none that belongs to a sequence, which stays with its
// version.
func (m *metric) client(req *edgewise.Request, resp *edgewise.Response, err error) float64 {
	if m == nil || !m.drawn || err != nil || req.Sequence.Active() {
		return unmeasured()
	}
	return m.of(resp)
}

// of returns the value of an answer, unmeasured where the client did not want the output, and where that is empty or
// too large.
func (m *metric) of(resp *edgewise.Response) float64 {
	i := slices.IndexFunc(resp.Outputs, func(t edgewise.Tensor) bool { return t.Name == m.Output })
	if i < 0 {
		return unmeasured()
	}
	t := &resp.Outputs[i]
	size := t.Type.Size()
	if size == 0 || len(t.Data) == 0 || t.Pictures != nil || int64(len(t.Data)) > maxElements*size {
		return unmeasured()
	}
	x := m.reduce(t, size)
	if math.IsNaN(x) {
		return 1
	}
	v := (min(max(x, m.Low), m.High) - m.Low) / (m.High - m.Low)
	if m.Worse == admin.WorseLower {
		v = 1 - v
	}
	return v
}

// reduce returns the number of an output, NaN when an element is none.
func (m *metric) reduce(t *edgewise.Tensor, size int64) (x float64) {
	n := int64(len(t.Data)) / size
	x = scalar.Float(t.Type, t.Data)
	if m.Reduce == admin.ReduceCountAbove || m.Reduce == admin.ReduceMean {
		x = 0
	}
	for at := range n {
		v := scalar.Float(t.Type, t.Data[at*size:])
		switch {
		case math.IsNaN(v):
			return v
		case m.Reduce == admin.ReduceMax:
			x = max(x, v)
		case m.Reduce == admin.ReduceMin:
			x = min(x, v)
		case m.Reduce == admin.ReduceMean:
			x += v / float64(n)
		case v > m.Above:
			x++
		}
	}
	return x
}

// shown returns a mean of values as the output has them.
func (m *metric) shown(t total) admin.RolloutMean {
	if t.N == 0 {
		return admin.RolloutMean{}
	}
	v := t.Sum / float64(t.N)
	if m.Worse == admin.WorseLower {
		v = 1 - v
	}
	return admin.RolloutMean{Answers: t.N, Mean: m.Low + v*(m.High-m.Low)}
}

// metered is what was measured of a metric. It is stored.
type metered struct {
	Live      total    `json:"live"` // of clients' requests that were drawn
	Candidate total    `json:"candidate"`
	Drawn     evidence `json:"drawn"`
	Before    total    `json:"before"` // answers of the live version that a shadow has answered, too
	After     total    `json:"after"`  // and the candidate's
	Paired    evidence `json:"paired"`
}

// total sums values.
type total struct {
	N   uint64  `json:"n"`
	Sum float64 `json:"sum"`
}

func (t *total) add(v float64) { t.N, t.Sum = t.N+1, t.Sum+v }

// draw counts the value of an answer that came from the candidate with the chance share, and tells whether the evidence
// has grown. What is bet on is the difference of two estimates, one of which is 0: each answer stands for the 1/share, or
// 1/(1-share), of those that it was drawn from. The mean before it is subtracted, which takes nothing from the claim and
// most of the scatter.
func (m *metered) draw(v, share, by float64, candidate bool) bool {
	if math.IsNaN(v) || share <= 0 || share >= 1 {
		return false
	}
	middle := 0.5
	if m.Live.N > 0 {
		middle = m.Live.Sum / float64(m.Live.N)
	}
	gain := -by
	if candidate {
		m.Candidate.add(v)
		gain += (v - middle) / share
	} else {
		m.Live.add(v)
		gain -= (v - middle) / (1 - share)
	}
	return m.Drawn.bet(gain, max(middle/share, (1-middle)/(1-share))+by)
}

// pair counts the values of both answers to one request, and tells whether the evidence has grown.
func (m *metered) pair(live, candidate, by float64) bool {
	if math.IsNaN(live) || math.IsNaN(candidate) {
		return false
	}
	m.Before.add(live)
	m.After.add(candidate)
	return m.Paired.bet(candidate-live-by, 1+by)
}

// value returns the stronger of both evidences, each of which has a part of the chance of a false alarm.
func (m *metered) value() float64 { return max(m.Drawn.value(), m.Paired.value()) }

// paired counts the answers of both versions to a request of the shadow.
func (t *trial) paired(live, candidate *edgewise.Response) {
	if t.metric == nil {
		return
	}
	before, after := t.metric.of(live), t.metric.of(candidate)
	t.mu.Lock()
	first := t.counting && t.watch == nil && t.m.Metric.pair(before, after, t.metric.by) && t.breach == "" && t.judge()
	t.mu.Unlock()
	if first {
		t.breached()
	}
}

// describe shows what was measured.
func (m *metric) describe(of *metered) *admin.RolloutMetered {
	return &admin.RolloutMetered{
		Live: m.shown(of.Live), Candidate: m.shown(of.Candidate), ShadowLive: m.shown(of.Before),
		ShadowCandidate: m.shown(of.After),
	}
}

// explain says why a rollout goes back.
func (m *metric) explain(of *metered) string {
	shown, kind := m.describe(of), "answers to clients"
	live, candidate := shown.Live, shown.Candidate
	if of.Paired.value() > of.Drawn.value() {
		live, candidate, kind = shown.ShadowLive, shown.ShadowCandidate, "answers to the same requests"
	}
	return fmt.Sprintf("metric %q: it is %.4g on average in %d %s of the candidate, and %.4g in %d of the version before it",
		m.Name, candidate.Mean, candidate.Answers, kind, live.Mean, live.Answers)
}

// completeMetric fills in the presets of a plan's metric, and checks it. Errors: Invalid with Field.
func completeMetric(p *admin.RolloutPlan) error {
	if p.Metric == nil {
		return nil
	}
	m := *p.Metric
	p.Metric = &m
	if m.Name == "" {
		p.Metric.Name = m.Output
	}
	fail := func(field, format string, args ...any) error {
		return edgewise.Errorf("rollout.complete", edgewise.Invalid, format, args...).WithField(field)
	}
	finite := func(v float64) bool { return math.Abs(v) <= math.MaxFloat32 } // and NaN is not
	switch {
	case m.Output == "" || len(m.Output) > maxMetricName:
		return fail("metric.output", "the output of the metric has %d bytes: want 1 to %d", len(m.Output), maxMetricName)
	case len(m.Name) > maxMetricName:
		return fail("metric.name", "the name of the metric has %d bytes: want at most %d", len(m.Name), maxMetricName)
	case !slices.Contains(admin.Reductions(), m.Reduce):
		return fail("metric.reduce", "metric.reduce is %.40q: want one of %v", m.Reduce, admin.Reductions())
	case m.Above != 0 && m.Reduce != admin.ReduceCountAbove || !finite(m.Above):
		return fail("metric.above", "metric.above is %g: want a number, and only with %s", m.Above, admin.ReduceCountAbove)
	case !finite(m.Low) || !finite(m.High) || m.Low >= m.High:
		return fail("metric.low", "metric.low is %g and metric.high %g: want two numbers, the lower one first", m.Low, m.High)
	case m.Worse != admin.WorseHigher && m.Worse != admin.WorseLower:
		return fail("metric.worse", "metric.worse is %.40q: want higher or lower", m.Worse)
	case !(m.By >= 0 && m.By < m.High-m.Low):
		return fail("metric.by", "metric.by is %g: want 0 or more, and less than metric.high - metric.low", m.By)
	case p.Sticky != "" && p.Shadow == nil:
		return fail("metric", "the plan has a metric and is sticky: what keys send differs, so that needs a shadow, which "+
			"compares answers to the same requests")
	}
	return nil
}

// checkStream reports what a plan compares and a decoupled model does not have, which is one answer to a request. Errors:
// Unsupported with Field.
func checkStream(p *admin.RolloutPlan, candidate *edgewise.Version) error {
	field := ""
	switch {
	case !candidate.Model.Decoupled():
		return nil
	case p.Shadow != nil:
		field = "shadow"
	case p.Metric != nil:
		field = "metric"
	default:
		return nil
	}
	return edgewise.Errorf("rollout.Start", edgewise.Unsupported, "the plan has a %s, which compares answers, and model %q is decoupled: "+
		"a request to it has any number of responses", field, candidate.ID.Name).WithField(field)
}

// checkMetric reports a metric that cannot be measured of two versions. Errors: Invalid with Field.
func checkMetric(m *admin.OutputMetric, versions ...*edgewise.Version) error {
	if m == nil {
		return nil
	}
	for _, v := range versions {
		outputs := v.Model.Outputs()
		i := slices.IndexFunc(outputs, func(s edgewise.Spec) bool { return s.Name == m.Output })
		if i < 0 || outputs[i].Type.Size() == 0 {
			return edgewise.Errorf("rollout.Start", edgewise.Invalid, "version %d of model %q has no output %.80q of numbers",
				v.ID.Version, v.ID.Name, m.Output).WithField("metric.output")
		}
	}
	return nil
}

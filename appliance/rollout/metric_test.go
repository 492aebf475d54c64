package rollout

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/scalar"
)

// scores is a metric of numbers from 0 to 1, of which lower ones are worse by more than 0.02.
func scores() *admin.OutputMetric {
	return &admin.OutputMetric{Name: "confidence", Output: "y", Reduce: admin.ReduceMean, High: 1, Worse: "lower", By: 0.02}
}

func TestTheMetricOfAnAnswerIsOneNumberBetweenItsBounds(t *testing.T) {
	tensor := func(kind edgewise.DataType, values ...float64) edgewise.Tensor {
		var data []byte
		for _, v := range values {
			if kind.IsFloat() {
				data = scalar.AppendFloat(data, kind, v)
			} else {
				data = scalar.AppendBits(data, kind, uint64(int64(v)))
			}
		}
		return edgewise.Tensor{Name: "y", Type: kind, Shape: edgewise.Shape{int64(len(values))}, Data: data}
	}
	fp32 := func(values ...float64) edgewise.Tensor { return tensor(edgewise.FP32, values...) }
	picture := fp32(1)
	picture.Pictures = &edgewise.Pictures{}
	for name, test := range map[string]struct {
		metric admin.OutputMetric
		output edgewise.Tensor
		want   float64
	}{
		"mean":                          {admin.OutputMetric{Reduce: "mean", High: 10, Worse: "higher"}, fp32(1, 2, 6), 0.3},
		"max":                           {admin.OutputMetric{Reduce: "max", High: 10, Worse: "higher"}, fp32(1, 6, 2), 0.6},
		"min of negative numbers":       {admin.OutputMetric{Reduce: "min", Low: -10, Worse: "higher"}, fp32(-1, -6), 0.4},
		"count":                         {admin.OutputMetric{Reduce: "count_above", Above: 2, High: 4, Worse: "higher"}, fp32(1, 2, 3, 4), 0.5},
		"lower is worse":                {admin.OutputMetric{Reduce: "mean", High: 10, Worse: "lower"}, fp32(3), 0.7},
		"below the bounds":              {admin.OutputMetric{Reduce: "mean", High: 10, Worse: "higher"}, fp32(-3), 0},
		"beyond the bounds":             {admin.OutputMetric{Reduce: "mean", High: 10, Worse: "higher"}, fp32(math.Inf(1)), 1},
		"no number, higher is worse":    {admin.OutputMetric{Reduce: "max", High: 10, Worse: "higher"}, fp32(1, math.NaN()), 1},
		"no number, lower is worse":     {admin.OutputMetric{Reduce: "min", High: 10, Worse: "lower"}, fp32(math.NaN(), 1), 1},
		"infinities without a mean":     {admin.OutputMetric{Reduce: "mean", High: 10, Worse: "lower"}, fp32(math.Inf(1), math.Inf(-1)), 1},
		"integers":                      {admin.OutputMetric{Reduce: "max", High: 10, Worse: "higher"}, tensor(edgewise.Int64, 4, -2), 0.4},
		"truth values":                  {admin.OutputMetric{Reduce: "mean", High: 1, Worse: "higher"}, tensor(edgewise.Bool, 1, 0), 0.5},
		"an empty output":               {admin.OutputMetric{Reduce: "mean", High: 1, Worse: "higher"}, fp32(), math.NaN()},
		"an output that was not wanted": {admin.OutputMetric{Reduce: "mean", High: 1, Worse: "higher", Output: "z"}, fp32(1), math.NaN()},
		"texts": {
			admin.OutputMetric{Reduce: "mean", High: 1, Worse: "higher"},
			edgewise.Tensor{Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, "a")},
			math.NaN(),
		},
		"a picture that is not made": {admin.OutputMetric{Reduce: "mean", High: 1, Worse: "higher"}, picture, math.NaN()},
		"a very large output": {
			admin.OutputMetric{Reduce: "mean", High: 1, Worse: "higher"}, fp32(make([]float64, maxElements+1)...), math.NaN(),
		},
	} {
		if test.metric.Output == "" {
			test.metric.Output = "y"
		}
		m := newMetric(&admin.RolloutPlan{Metric: &test.metric})
		got := m.of(&edgewise.Response{Outputs: []edgewise.Tensor{{Name: "x"}, test.output}})
		if math.Abs(got-test.want) > 1e-6 || math.IsNaN(got) != math.IsNaN(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestWhatAMetricTells states after how many requests to the candidate, or comparisons of a shadow, a candidate is taken
// back of 100,000 requests in three stages, in 99 of 100 rollouts; 0 are candidates that are good enough. The two
// answers to a request are as far apart as those to any two.
func TestWhatAMetricTells(t *testing.T) {
	around := func(middle, sigma float64) func(*rand.Rand, int) float64 {
		return func(r *rand.Rand, _ int) float64 { return min(max(middle+sigma*r.NormFloat64(), 0), 1) }
	}
	day := func(shift float64) func(*rand.Rand, int) float64 { // what the camera sees changes
		return func(r *rand.Rand, n int) float64 { return around(0.4+shift+0.3*math.Sin(float64(n)/9000), 0.1)(r, n) }
	}
	rare := func(p float64) func(*rand.Rand, int) float64 {
		return func(r *rand.Rand, _ int) float64 {
			if r.Float64() < p {
				return 1
			}
			return 0
		}
	}
	for _, test := range []struct {
		name            string
		live, candidate func(r *rand.Rand, n int) float64
		clients, shadow int
	}{
		{"equal", around(0.2, 0.1), around(0.2, 0.1), 0, 0},
		{"worse by what is allowed", around(0.2, 0.1), around(0.22, 0.1), 0, 0},
		{"equal, by the time of the day", day(0), day(0), 0, 0},
		{"one in a hundred", rare(0.01), rare(0.01), 0, 0},
		{"yes or no, worse by what is allowed", rare(0.3), rare(0.32), 0, 0},
		{"worse by 0.1", around(0.2, 0.1), around(0.3, 0.1), 100, 300},
		{"worse by 0.04", around(0.2, 0.1), around(0.24, 0.1), 1500, 3000},
		{"worse by 0.04, by the time of the day", day(0), day(0.04), 10_000, 3000},
		{"yes or no, worse by 0.1", rare(0.3), rare(0.4), 2000, 4000},
		{"always at its worst", around(0.2, 0.1), around(1, 0), 8, 20},
	} {
		for _, shadow := range []bool{false, true} {
			within := map[bool]int{false: test.clients, true: test.shadow}[shadow]
			t.Run(test.name+map[bool]string{false: "", true: ", with a shadow"}[shadow], func(t *testing.T) {
				t.Parallel()
				taken, late, all := 0, 0, []int(nil)
				for seed := range uint64(*runs) {
					n := newWorld(seed).measured(100_000, shadow, test.live, test.candidate)
					all = append(all, n)
					if n > 0 {
						taken++
					}
					if n > within {
						late++
					}
				}
				t.Logf("%d of %d taken back: %s; %d later than stated", taken, *runs, quantiles(all), late)
				switch {
				case within == 0 && taken > *runs/100:
					t.Errorf("%d of %d were taken back", taken, *runs)
				case within > 0 && (taken < *runs || late > *runs/100):
					t.Errorf("%d of %d were taken back, %d of them late", taken, *runs, late)
				}
			})
		}
	}
}

// measured returns after how many requests to a candidate, or comparisons, its metric has taken it back; 0: it has not.
func (w *world) measured(requests int, shadow bool, live, candidate func(r *rand.Rand, n int) float64) int {
	t, over := newTestTrial(), false
	plan := admin.RolloutPlan{Metric: scores()}
	plan.Metric.Worse = admin.WorseHigher
	preset(&plan.FalseAlarmPercent, 1)
	t.metric, t.bound, t.breached = newMetric(&plan), boundOf(&plan), func() { over = true }
	answer := func(v float64) *edgewise.Response {
		return &edgewise.Response{Outputs: []edgewise.Tensor{
			{Name: "y", Type: edgewise.FP64, Shape: edgewise.Shape{1}, Data: scalar.AppendFloat(nil, edgewise.FP64, v)},
		}}
	}
	for i, share := range []float64{0.05, 0.25, 0.5} {
		t.stage(3)
		t.count(w.now, share, false)
		for n := range requests / 3 {
			n += i * requests / 3
			w.now = w.now.Add(5 * time.Millisecond)
			if shadow {
				t.paired(answer(live(w.random, n)), answer(candidate(w.random, n)))
				if over {
					return int(t.m.Metric.After.N)
				}
				continue
			}
			number, v := int64(1), live
			if w.random.Float64() < share {
				number, v = 2, candidate
			}
			t.observe(number, w.now, time.Millisecond, nil, t.metric.client(&edgewise.Request{}, answer(v(w.random, n)), nil))
			if over {
				return int(t.m.Metric.Candidate.N)
			}
		}
	}
	return 0
}

func TestAVersionWhoseMetricIsWorseIsTakenBack(t *testing.T) {
	worse := []float64{1, 1, 4, 5}
	metric := &admin.OutputMetric{Output: "y", Reduce: "count_above", Above: 4.5, High: 4, Worse: "lower", By: 0.1}
	for name, test := range map[string]struct {
		change func(p *admin.RolloutPlan)
		reason string
	}{
		"among clients": {func(*admin.RolloutPlan) {}, "answers to clients"},
		"in a shadow": {func(p *admin.RolloutPlan) {
			p.Shadow, p.Stages = shadowPlan(50).Shadow, shadowPlan(50).Stages
		}, "the same requests"},
		"in a shadow, sticky": {func(p *admin.RolloutPlan) {
			p.Shadow, p.Sticky = shadowPlan(50).Shadow, "caller"
		}, "the same requests"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s, stop := newDisk().open(t)
				defer stop()
				b.rules = []admin.CompareRule{{Output: "y", Kind: admin.CompareIgnore}}
				b.answer = func(int) []float64 { return worse }
				b.shadow = func(context.Context, int) ([]float64, error) { return worse, nil }
				plan := testPlan()
				plan.Metric = metric
				test.change(&plan)
				if _, err := s.Start(t.Context(), "m", plan); err != nil {
					t.Fatal(err)
				}
				b.ask(s, 30, fine)
				r, _ := s.Get("m")
				if r.State != admin.RolloutBack || b.split() != (manager.Split{}) || !strings.Contains(r.Reason, `metric "y": it is 1 on`) ||
					!strings.Contains(r.Reason, "2 in") || !strings.Contains(r.Reason, test.reason) {
					t.Errorf("%s: %s", r.State, r.Reason)
				}
				if strings.Contains(test.reason, "clients") != (r.Metric.Candidate.Answers > 0) || len(r.Evidence) == 0 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestWhatCannotBeMeasuredIsNoPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, stop := newDisk().open(t)
		defer stop()
		for name, test := range map[string]struct {
			change func(p *admin.RolloutPlan)
			field  string
		}{
			"no output":             {func(p *admin.RolloutPlan) { p.Metric.Output = "" }, "metric.output"},
			"an output of texts":    {func(p *admin.RolloutPlan) { p.Metric.Output = "text" }, "metric.output"},
			"an unknown output":     {func(p *admin.RolloutPlan) { p.Metric.Output = "z" }, "metric.output"},
			"a long name":           {func(p *admin.RolloutPlan) { p.Metric.Name = strings.Repeat("n", 257) }, "metric.name"},
			"another reduction":     {func(p *admin.RolloutPlan) { p.Metric.Reduce = "median" }, "metric.reduce"},
			"above of a mean":       {func(p *admin.RolloutPlan) { p.Metric.Above = 1 }, "metric.above"},
			"no bounds":             {func(p *admin.RolloutPlan) { p.Metric.High = 0 }, "metric.low"},
			"bounds that are none":  {func(p *admin.RolloutPlan) { p.Metric.High = math.Inf(1) }, "metric.low"},
			"no direction":          {func(p *admin.RolloutPlan) { p.Metric.Worse = "" }, "metric.worse"},
			"a negative difference": {func(p *admin.RolloutPlan) { p.Metric.By = -1 }, "metric.by"},
			"all differences":       {func(p *admin.RolloutPlan) { p.Metric.By = 1 }, "metric.by"},
			"sticky":                {func(p *admin.RolloutPlan) { p.Sticky = "caller" }, "metric"},
		} {
			plan := testPlan()
			plan.Metric = scores()
			test.change(&plan)
			_, err := s.Start(t.Context(), "m", plan)
			if e, ok := errors.AsType[*edgewise.Error](err); !ok || e.Kind != edgewise.Invalid || e.Field != test.field {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestWhatADecoupledModelIsRolledOutBy is how its requests end and how long they take: nothing compares its answers.
func TestWhatADecoupledModelIsRolledOutBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		for _, v := range d.record.Versions {
			v.Model.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
		}
		_, s, stop := d.open(t)
		defer stop()
		for field, change := range map[string]func(p *admin.RolloutPlan){
			"metric": func(p *admin.RolloutPlan) { p.Metric = scores() },
			"shadow": func(p *admin.RolloutPlan) { p.Shadow = &admin.RolloutShadow{Percent: 50} },
		} {
			plan := testPlan()
			change(&plan)
			_, err := s.Start(t.Context(), "m", plan)
			if e, ok := errors.AsType[*edgewise.Error](err); !ok || e.Kind != edgewise.Unsupported || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		if r, err := s.Start(t.Context(), "m", testPlan()); err != nil || r.State != admin.RolloutRunning {
			t.Errorf("a plan of shares: %+v, %v", r, err)
		}
	})
}

func TestRequestsOfSequencesAndThoseThatFailAreNotMeasured(t *testing.T) {
	m := newMetric(&admin.RolloutPlan{Metric: scores()})
	resp := &edgewise.Response{Outputs: []edgewise.Tensor{
		{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: scalar.AppendFloat(nil, edgewise.FP32, 1)},
	}}
	if v := m.client(&edgewise.Request{}, resp, nil); v != 0 {
		t.Errorf("an answer: %v", v)
	}
	for name, v := range map[string]float64{
		"of a sequence": m.client(&edgewise.Request{Sequence: edgewise.Sequence{ID: 7}}, resp, nil),
		"that failed":   m.client(&edgewise.Request{}, resp, errFailed),
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

package capacity_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/capacity"
)

// model is a load of runs of so many milliseconds on one core.
func model(name string, rate, ms float64, instances int) capacity.Load {
	id := edgewise.ModelID{Name: name, Version: 1}
	return always(rate, 1, capacity.Cost{
		Core: ms / 1000, Demands: []capacity.Demand{{ID: id, Seconds: ms / 1000, Runs: 1, Instances: instances}},
	}, id)
}

// always is a load whose requests take the same at all rates.
func always(rate float64, steps int, c capacity.Cost, id edgewise.ModelID) capacity.Load {
	return capacity.Load{Rate: rate, Profile: capacity.Profile{
		ID: id, Single: c, Full: c, Most: 1, Base: c.Core, Steps: steps,
	}}
}

func bounded(l capacity.Load, ms float64) capacity.Load {
	l.Bound = ms / 1000
	return l
}

func TestWhatBreaksFirst(t *testing.T) {
	g, a := edgewise.ModelID{Name: "g", Version: 1}, edgewise.ModelID{Name: "a", Version: 1}
	gpu := always(50, 1, capacity.Cost{
		Core: 0.0001, Demands: []capacity.Demand{{ID: g, Seconds: 0.01, Runs: 1, Instances: 2, Device: "gpu:0"}},
	}, g)
	pipeline := always(10, 2, capacity.Cost{
		Core: 0.03, Demands: []capacity.Demand{{ID: a, Seconds: 0.02, Runs: 2, Instances: 1}},
	}, edgewise.ModelID{Name: "pipeline", Version: 1})
	for _, c := range []struct {
		name     string
		feasible bool
		breaks   string
		s        capacity.Situation
		factor   float64
	}{
		{"half of the cores", true, "cores", capacity.Situation{
			Cores: 2, Loads: []capacity.Load{model("a", 50, 10, 2), model("b", 25, 20, 2)},
		}, 1.9},
		{"more than the cores", false, "cores", capacity.Situation{
			Cores: 2, Loads: []capacity.Load{model("a", 400, 10, 2)},
		}, 0.475},
		{"one instance", true, "instances of a", capacity.Situation{
			Cores: 4, Loads: []capacity.Load{model("a", 50, 10, 1)},
		}, 1.9},
		{"a GPU", true, "gpu:0", capacity.Situation{
			Cores: 2, Loads: []capacity.Load{gpu},
		}, 1.9},
		{"a step that others use, too", true, "instances of a", capacity.Situation{
			Cores: 8, Loads: []capacity.Load{pipeline, model("a", 30, 10, 1)},
		}, 1.9},
		{"a latency that no rate gives", false, "p99 of a", capacity.Situation{
			Cores: 2, Loads: []capacity.Load{bounded(model("a", 1, 10, 2), 5)},
		}, 0},
		{"a latency below much load", false, "p99 of a", capacity.Situation{
			Cores: 1, Loads: []capacity.Load{bounded(model("a", 90, 10, 1), 20)},
		}, 0.072},
		{"memory", false, "memory", capacity.Situation{
			Cores: 2, Loads: []capacity.Load{model("a", 1, 10, 2)}, Needed: 3 << 30, Memory: 2 << 30,
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := capacity.Predict(c.s)
			if got.Feasible != c.feasible || got.Breaks != c.breaks || math.Abs(got.Factor-c.factor) > 0.02 {
				t.Errorf("feasible %v, %s breaks at %.3f: want %v, %s at %.3f\n%s", got.Feasible, got.Breaks, got.Factor, c.feasible, c.breaks,
					c.factor, got.Sentence)
			}
			if !strings.Contains(got.Sentence, c.breaks) {
				t.Errorf("%q does not name %s", got.Sentence, c.breaks)
			}
		})
	}
}

// TestBatchesGrowWithTheRate asks about a model whose run takes 6 ms and 2 ms for each of at most eight rows.
func TestBatchesGrowWithTheRate(t *testing.T) {
	id := edgewise.ModelID{Name: "a", Version: 1}
	cost := func(rows float64) capacity.Cost {
		seconds := 0.002 + 0.006/rows
		return capacity.Cost{Core: seconds, Demands: []capacity.Demand{
			{ID: id, Seconds: seconds, Runs: 1 / rows, Instances: 2},
		}}
	}
	l := capacity.Load{Profile: capacity.Profile{
		ID: id, Single: cost(1), Full: cost(8), Most: 2 / cost(8).Core, Base: 0.008, Steps: 1,
	}}
	used := 0.0
	for _, c := range []struct{ rate, core float64 }{
		{l.Most / 1000, 7.96}, {l.Most / 7, 5}, {l.Most / 2, 2 + 6/4.5}, {l.Most, 2.75}, {2 * l.Most, 2.75},
	} {
		l.Rate = c.rate
		got := capacity.Predict(capacity.Situation{Cores: 2, Loads: []capacity.Load{l}})
		if core := got.Models[0].Core; math.Abs(core-c.core) > 0.01 {
			t.Errorf("at %.0f/s a request takes %.3f ms of a core, want %.3f", c.rate, core, c.core)
		}
		if alone := got.Models[0].Alone; alone < 0.9*l.Most || alone > l.Most {
			t.Errorf("alone it carries %.0f/s, and %.0f/s were measured", alone, l.Most)
		}
		for _, r := range got.Resources {
			if r.Name != "cores" {
				continue
			}
			most := c.rate * r.Factor // requests a second with which the cores are used up
			if r.Used <= used || most < 0.9*0.95*l.Most || most > l.Most {
				t.Errorf("at %.0f/s the cores are used to %.2f, after %.2f, and used up at %.0f/s", c.rate, r.Used, used, most)
			}
			used = r.Used
		}
	}
}

func TestTheLatencyGrowsWithTheLoad(t *testing.T) {
	last := 0.0
	for _, rate := range []float64{1, 50, 100, 150, 190} {
		got := capacity.Predict(capacity.Situation{Cores: 2, Loads: []capacity.Load{model("a", rate, 10, 2)}})
		if p99 := got.Models[0].P99; p99 < last || p99 < 10 {
			t.Errorf("p99 %.1f ms at %.0f/s, after %.1f", p99, rate, last)
		} else {
			last = p99
		}
	}
	if over := capacity.Predict(capacity.Situation{Cores: 2, Loads: []capacity.Load{model("a", 300, 10, 2)}}); over.Models[0].P99 != 0 {
		t.Errorf("a queue that grows without end has a p99 of %v ms", over.Models[0].P99)
	}
}

// TestTheWaitIsThatOfTheFormula compares with M/M/1: 99 % of the arrivals wait less than ln(100 x used) / (rate of service - rate).
func TestTheWaitIsThatOfTheFormula(t *testing.T) {
	l := model("a", 50, 10, 1)
	got := capacity.Predict(capacity.Situation{Cores: 1, Loads: []capacity.Load{l}})
	// runs of one length: half of what exponential ones wait
	want := 10 + 1000*math.Log(100*0.5)/(100-50)/2
	if p99 := got.Models[0].P99; math.Abs(p99-want) > 0.1 {
		t.Errorf("p99 %.2f ms, want %.2f", p99, want)
	}
}

func TestAloneIsWhatOneModelMayHave(t *testing.T) {
	got := capacity.Predict(capacity.Situation{Cores: 2, Loads: []capacity.Load{model("a", 10, 10, 2), model("b", 10, 10, 1)}})
	if a, b := got.Models[0], got.Models[1]; math.Abs(a.Alone-190) > 0.1 || math.Abs(b.Alone-95) > 0.1 {
		t.Errorf("alone %.1f and %.1f: want 190 and 95", a.Alone, b.Alone)
	}
}

func TestACapacityIsPrinted(t *testing.T) {
	got := capacity.Predict(capacity.Situation{Cores: 2, Loads: []capacity.Load{bounded(model("a", 50, 10, 2), 40)}})
	got.Check = &admin.CapacityCheck{
		Held: true, Seconds: 5, Cores: 0.26, Models: []admin.CapacityChecked{{Model: "a", Offered: 50, Answered: 50}},
	}
	var text strings.Builder
	got.Describe(&text)
	for _, want := range []string{"feasible", "RESOURCE", "cores", "p99 of a", "a:1", "CHECK", "it held, with 26 % of the cores"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

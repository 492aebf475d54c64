package tuned

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// TestTheBestOfAGridIsThatOfAllItsCandidates has grids of three, of which the choice is as good as the best one found.
func TestTheBestOfAGridIsThatOfAllItsCandidates(t *testing.T) {
	for _, c := range []struct {
		name               string
		measured, excluded []search.Candidate
		met                bool
	}{
		{"all were measured", []search.Candidate{"a", "b", "c"}, nil, true},
		{"one cannot be used", []search.Candidate{"a", "b"}, []search.Candidate{"c"}, true},
		{"one was measured and then failed", []search.Candidate{"a", "b"}, []search.Candidate{"b"}, false},
		{"the time was over", []search.Candidate{"a", "b"}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := &search.Found{Measured: map[search.Candidate]*search.Measured{}, Excluded: map[search.Candidate]*search.Excluded{}}
			for _, m := range c.measured {
				found.Measured[m] = &search.Measured{}
			}
			for _, e := range c.excluded {
				found.Excluded[e] = &search.Excluded{Reason: "it answers otherwise"}
			}
			m := &measuring{size: 3, found: found, last: &search.Found{}, best: 1}
			m.tunings = []tuning{{version: 1, outcome: outcome{gain: 1, best: 1}}}
			m.compared = m.tunings
			if f := m.result().Figures[0]; f.Met != c.met || !strings.HasSuffix(f.Name, "the best of the grid") {
				t.Errorf("met %v, want %v: %+v", f.Met, c.met, f)
			}
		})
	}
}

// TestWhatMissesABoundIsNotTheBest compares choices with a best of the grid that clients see miss a bound, or not.
func TestWhatMissesABoundIsNotTheBest(t *testing.T) {
	const slow = "it carries 13.8 requests per second, and 15 are wanted"
	for _, c := range []struct {
		name  string
		of    outcome
		value float64
	}{
		{"both keep it", outcome{gain: 1, best: 2}, 0.5},
		{"the best of the grid misses it", outcome{gain: 1, best: 1.3, bestMissed: slow}, 1},
		{"the best of the grid is worse", outcome{gain: 1, best: 0.9}, 1},
		{"the choice misses it", outcome{gain: 1.3, best: 1.1, missed: slow}, 0},
		{"the choice is the best of the grid, and misses it", outcome{gain: 1.3, best: 1.3, missed: slow, bestMissed: slow}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			choice := []tuning{{version: 1, outcome: c.of}}
			m := &measuring{found: &search.Found{}, last: &search.Found{}, best: 2, tunings: choice, compared: choice}
			f := m.result().Figures[0]
			if told := strings.Contains(f.Detail, slow); f.Value != c.value || told != (c.of.missed+c.of.bestMissed != "") {
				t.Errorf("%v x, want %v: %s", f.Value, c.value, f.Detail)
			}
		})
	}
}

func TestTheWorstChoiceIsOneThatMissesABoundOrElseTheOneWithTheLeastGain(t *testing.T) {
	of := func(gain float64, missed string) tuning {
		return tuning{outcome: outcome{gain: gain, best: 1.2, missed: missed}}
	}
	for _, c := range []struct {
		name        string
		list        []tuning
		worst, best float64
	}{
		{"all keep it", []tuning{of(1.1, ""), of(0.9, ""), of(1.3, "")}, 0.9, 1.3},
		{"the one with the largest gain misses it", []tuning{of(1.1, ""), of(0.9, ""), of(1.3, "too slow")}, 1.3, 1.1},
		{"all miss it", []tuning{of(1.1, "too slow"), of(0.9, "too slow")}, 0.9, 1.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if w, b := worst(c.list).gain, best(c.list).gain; w != c.worst || b != c.best {
				t.Errorf("the worst is %v, the best %v: want %v and %v", w, b, c.worst, c.best)
			}
		})
	}
}

package manager

import (
	"fmt"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// record makes a wanted model with versions 1 to n, all with one policy, and labels by name.
func record(n int64, p *edgewise.VersionPolicy, labels map[string]int64) *edgewise.Record {
	r := &edgewise.Record{Name: "m", Wanted: true}
	for i := range n {
		r.Versions = append(r.Versions, &edgewise.Version{
			ID:    edgewise.ModelID{Name: "m", Version: i + 1},
			Model: &edgewise.Model{VersionPolicy: p},
		})
	}
	for name, v := range labels {
		r.Labels = append(r.Labels, edgewise.Label{Name: name, Version: v})
	}
	return r
}

func TestAspired(t *testing.T) {
	latest := func(n uint32) *edgewise.VersionPolicy {
		return &edgewise.VersionPolicy{Latest: &edgewise.LatestVersions{NumVersions: n}}
	}
	live := func(v int64) map[string]int64 { return map[string]int64{"live": v} }
	tests := []struct {
		name   string
		record *edgewise.Record
		want   string
	}{
		{"no record", nil, "[] live 0"},
		{"no label, nothing to serve", record(3, nil, nil), "[] live 0"},
		{"default policy", record(3, nil, live(3)), "[3] live 3"},
		{"latest 2", record(3, latest(2), live(3)), "[2 3] live 3"},
		{"latest counts down from the live version", record(4, latest(2), live(2)), "[1 2] live 2"},
		{"latest more than there are", record(2, latest(9), live(2)), "[1 2] live 2"},
		{"latest 0 is 1", record(2, latest(0), live(2)), "[2] live 2"},
		{"all", record(3, &edgewise.VersionPolicy{All: &struct{}{}}, live(1)), "[1 2 3] live 1"},
		{
			"specific, what exists of it, and the live one",
			record(3, &edgewise.VersionPolicy{Specific: &edgewise.SpecificVersions{Versions: []int64{1, 9}}}, live(3)),
			"[1 3] live 3",
		},
		{"other labels", record(5, nil, map[string]int64{"live": 2, "canary": 5}), "[2 5] live 2"},
		{"a label alone", record(5, nil, map[string]int64{"canary": 4}), "[4] live 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			versions, live := Aspired(test.record)
			if got := fmt.Sprintf("%v live %d", versions, live); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	unwanted := record(3, nil, live(3))
	unwanted.Wanted = false
	if versions, _ := Aspired(unwanted); len(versions) != 0 {
		t.Errorf("a model that is not wanted aspires to %v", versions)
	}
}

func TestNext(t *testing.T) {
	const (
		fail = edgewise.StateUnavailable
		load = edgewise.StateLoading
		up   = edgewise.StateReady
		down = edgewise.StateUnloading
	)
	type states = map[int64]edgewise.State
	tests := []struct {
		name string
		s    snapshot
		want string
	}{
		{"nothing", snapshot{}, "serve 0 load [] unload [] forget []"},
		{"first version", snapshot{stored: []int64{1}, aspired: []int64{1}, live: 1}, "serve 0 load [1] unload [] forget []"},
		{
			"still loading",
			snapshot{stored: []int64{1}, aspired: []int64{1}, live: 1, states: states{1: load}},
			"serve 0 load [] unload [] forget []",
		},
		{
			"loaded",
			snapshot{stored: []int64{1}, aspired: []int64{1}, live: 1, states: states{1: up}},
			"serve 1 load [] unload [] forget []",
		},
		{"the old one serves while the new one loads", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2,
			serving: 1, states: states{1: up},
		}, "serve 1 load [2] unload [] forget []"},
		{"and until it is loaded", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2, serving: 1,
			states: states{1: up, 2: load},
		}, "serve 1 load [] unload [] forget []"},
		{"then traffic moves and the old one goes", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2, serving: 1,
			states: states{1: up, 2: up},
		}, "serve 2 load [] unload [1] forget []"},
		{"a failed new one leaves the old one serving", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2,
			serving: 1, states: states{1: up, 2: fail},
		}, "serve 1 load [] unload [] forget []"},
		{"unless the old one was deleted", snapshot{
			stored: []int64{2}, aspired: []int64{2}, live: 2, serving: 1,
			states: states{1: up, 2: load},
		}, "serve 0 load [] unload [1] forget []"},
		{"what is leaving serves while the new one loads, every version of it", snapshot{
			stored: []int64{3}, aspired: []int64{3}, live: 3, leaving: []int64{1, 2},
			serving: 2, states: states{1: up, 2: up, 3: load},
		}, "serve 2 load [] unload [] forget []"},
		{"and when that has failed", snapshot{
			stored: []int64{3}, aspired: []int64{3}, live: 3, leaving: []int64{1, 2},
			serving: 2, states: states{1: up, 2: up, 3: fail},
		}, "serve 2 load [] unload [] forget []"},
		{"and goes when the new one is ready", snapshot{
			stored: []int64{3}, aspired: []int64{3}, live: 3, leaving: []int64{1, 2},
			serving: 2, states: states{1: up, 2: up, 3: up},
		}, "serve 3 load [] unload [1 2] forget []"},
		{"or the model is unloaded", snapshot{
			stored: []int64{3}, leaving: []int64{1, 2}, serving: 2, states: states{1: up, 2: up, 3: fail},
		}, "serve 0 load [] unload [1 2] forget [3]"},
		{"a failure is not retried by itself", snapshot{
			stored: []int64{1}, aspired: []int64{1}, live: 1,
			states: states{1: fail},
		}, "serve 0 load [] unload [] forget []"},
		{"a failure nobody wants is forgotten", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2, serving: 2,
			states: states{1: fail, 2: up},
		}, "serve 2 load [] unload [] forget [1]"},
		{
			"unwanted while loading: waits for the load",
			snapshot{stored: []int64{1}, states: states{1: load}},
			"serve 0 load [] unload [] forget []",
		},
		{
			"unload all",
			snapshot{stored: []int64{1, 2}, serving: 2, states: states{1: up, 2: up}},
			"serve 0 load [] unload [1 2] forget []",
		},
		{
			"wanted again while unloading: after it is gone",
			snapshot{stored: []int64{1}, aspired: []int64{1}, live: 1, states: states{1: down}},
			"serve 0 load [] unload [] forget []",
		},
		{"held beside the live one", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2, serving: 2,
			held: []int64{1}, states: states{2: up},
		}, "serve 2 load [1] unload [] forget []"},
		{
			"held and not wanted otherwise",
			snapshot{stored: []int64{1}, live: 1, held: []int64{1}, states: states{1: up}},
			"serve 0 load [] unload [] forget []",
		},
		{"the live label leaves a held version", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2, serving: 1,
			held: []int64{1}, states: states{1: up, 2: up},
		}, "serve 2 load [] unload [] forget []"},
		{
			"a held failure is kept as the reason",
			snapshot{stored: []int64{1}, held: []int64{1}, states: states{1: fail}},
			"serve 0 load [] unload [] forget []",
		},
		{
			"held and not stored: kept, not loaded",
			snapshot{held: []int64{1, 2}, states: states{1: up}},
			"serve 0 load [] unload [] forget []",
		},
		{"trial beside the live one", snapshot{
			stored: []int64{1, 2}, aspired: []int64{1}, trial: []int64{2}, live: 1,
			serving: 1, states: states{1: up},
		}, "serve 1 load [2] unload [] forget []"},
		{
			"a trial never serves",
			snapshot{stored: []int64{1}, trial: []int64{1}, states: states{1: up}},
			"serve 0 load [] unload [] forget []",
		},
		{"a trial that became live", snapshot{
			stored: []int64{1, 2}, aspired: []int64{2}, live: 2, serving: 1,
			states: states{1: up, 2: up},
		}, "serve 2 load [] unload [1] forget []"},
		{"without a live label the highest ready one", snapshot{
			stored: []int64{1, 2, 3}, aspired: []int64{1, 2, 3},
			states: states{1: up, 2: up, 3: load},
		}, "serve 2 load [] unload [] forget []"},
		{
			"a version that has to be alone: the others go first",
			snapshot{
				stored: []int64{1, 2}, aspired: []int64{1}, trial: []int64{2}, live: 1, serving: 1, alone: 2,
				states: states{1: up, 2: load},
			},
			"serve 0 load [] unload [1] forget []",
		},
		{
			"what has another label or is part of an ensemble stays",
			snapshot{
				stored: []int64{1, 2, 3}, aspired: []int64{1, 3}, trial: []int64{2}, held: []int64{1}, live: 1, serving: 1,
				alone: 2, states: states{1: up, 2: load, 3: up},
			},
			"serve 0 load [] unload [] forget []",
		},
		{"and it serves no sooner than it is live", snapshot{
			stored: []int64{1, 2}, aspired: []int64{1}, trial: []int64{2},
			live: 1, alone: 2, states: states{2: up},
		}, "serve 0 load [] unload [] forget []"},
		{"or it is refused and goes", snapshot{
			stored: []int64{1, 2}, aspired: []int64{1}, live: 1, states: states{2: up},
		}, "serve 0 load [1] unload [2] forget []"},
		{"rollback to an unloaded version", snapshot{
			stored: []int64{1, 2}, aspired: []int64{1}, live: 1, serving: 2,
			states: states{2: up},
		}, "serve 2 load [1] unload [] forget []"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := next(test.s)
			if got := fmt.Sprintf("serve %d load %v unload %v forget %v", p.serving, p.load, p.unload,
				p.forget); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestNextSettles walks every mix of states and wishes of three versions, lets loads succeed and unloads end, and
// demands that the plan comes to rest with exactly the wanted versions ready.
func TestNextSettles(t *testing.T) {
	all := []int64{1, 2, 3}
	subsets := [][]int64{nil, {1}, {2}, {3}, {1, 2}, {1, 3}, {2, 3}, {1, 2, 3}}
	for _, ready := range subsets {
		for _, aspired := range subsets {
			for _, live := range append([]int64{0}, aspired...) {
				for _, serving := range append([]int64{0}, ready...) {
					s := snapshot{stored: all, aspired: aspired, live: live, serving: serving, states: map[int64]edgewise.State{}}
					for _, v := range ready {
						s.states[v] = edgewise.StateReady
					}
					if got := settle(t, s); !slices.Equal(got, aspired) {
						t.Errorf("ready %v, aspired %v, live %d, serving %d: settles with %v", ready, aspired, live, serving, got)
					}
				}
			}
		}
	}
}

func settle(t *testing.T, s snapshot) []int64 {
	for range 10 {
		p := next(s)
		if p.serving != 0 && s.states[p.serving] != edgewise.StateReady {
			t.Errorf("%+v: serves %d, which is not ready", s, p.serving)
		}
		if s.serving != 0 && len(s.aspired) > 0 && p.serving == 0 {
			t.Errorf("%+v: stops serving without need", s)
		}
		if len(p.load)+len(p.unload) == 0 && p.serving == s.serving {
			return s.ordered()
		}
		s.serving = p.serving
		for _, v := range p.load {
			s.states[v] = edgewise.StateReady
		}
		for _, v := range p.unload {
			delete(s.states, v)
		}
	}
	t.Errorf("%+v does not come to rest", s)
	return nil
}

package manager

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// answers counts which versions answer requests that name none.
func answers(t *testing.T, m *Manager, requests []*edgewise.Request) map[int64]int {
	t.Helper()
	counts := map[int64]int{}
	for _, req := range requests {
		req.Model.Name = "m"
		r, err := m.Infer(edgewise.WithPrincipal(t.Context(), &edgewise.Principal{Kind: "key", Name: req.ID}), req)
		if err != nil {
			t.Fatal(err)
		}
		counts[r.Model.Version]++
	}
	return counts
}

func plain(n int) []*edgewise.Request {
	list := make([]*edgewise.Request, n)
	for i := range list {
		list[i] = &edgewise.Request{}
	}
	return list
}

func awaitSettled(t *testing.T, m *Manager) {
	t.Helper()
	if err := m.Settle(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
}

func TestASplitSendsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		m.Want(live(3, 1))
		m.Split("m", Split{Live: 1, Version: 2})
		awaitSettled(t, m)
		if got := answers(t, m, plain(100)); got[1] != 100 {
			t.Errorf("without a share: %v", got)
		}
		for _, share := range []float64{0.05, 0.5, 1} {
			m.Split("m", Split{Live: 1, Version: 2, Share: share})
			got := answers(t, m, plain(4000))
			if part := float64(got[2]) / 4000; math.Abs(part-share) > 0.03 {
				t.Errorf("share %g: %v", share, got)
			}
		}
		if got := answer(t, m, 1); got != 1 {
			t.Errorf("a request that names version 1 is answered by %d", got)
		}
		m.Want(live(3, 3))
		awaitSettled(t, m)
		if got := answers(t, m, plain(100)); got[3] != 100 {
			t.Errorf("while another version is live: %v", got)
		}
		if got := answer(t, m, 2); got != 2 {
			t.Errorf("version 2 is not kept, %d answers", got)
		}
		m.Split("m", Split{})
		awaitSettled(t, m)
		if got := m.Statuses(); len(got) != 1 || got[0].ID.Version != 3 {
			t.Errorf("without the split there are %+v", got)
		}
	})
}

func TestASplitThatIsStickySendsTheSameRequestsToTheSameVersion(t *testing.T) {
	keyed := func(r *edgewise.Request, key string) { r.ID = key }
	header := func(r *edgewise.Request, key string) { r.Parameters = map[string]any{"X-User": key} }
	for _, test := range []struct {
		sticky string
		set    func(r *edgewise.Request, key string)
	}{
		{SplitByCaller, keyed},
		{SplitByParameter + "x-user", header},
	} {
		t.Run(test.sticky, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := start(t, Config{})
				m.Want(live(2, 1))
				moved := map[string]bool{}
				for _, share := range []float64{0.2, 0.6} {
					m.Split("m", Split{Live: 1, Version: 2, Share: share, Sticky: test.sticky})
					awaitSettled(t, m)
					to := 0
					for i := range 200 {
						key, list := fmt.Sprint("user", i), plain(3)
						for _, r := range list {
							test.set(r, key)
						}
						got := answers(t, m, list)
						if len(got) != 1 {
							t.Fatalf("%s: %v", key, got)
						}
						if moved[key] && got[2] == 0 {
							t.Errorf("%s goes back when the share grows", key)
						}
						moved[key] = got[2] > 0
						if moved[key] {
							to++
						}
					}
					if part := float64(to) / 200; math.Abs(part-share) > 0.12 {
						t.Errorf("share %g: %d of 200 keys", share, to)
					}
				}
				other := []*edgewise.Request{{Parameters: map[string]any{"other": 1}}}
				if got := answers(t, m, other); test.sticky != SplitByCaller && got[1] != 1 {
					t.Errorf("a request without the parameter: %v", got)
				}
			})
		})
	}
}

// TestSequencesStayWhereTheyBegan though the share changes in their course.
func TestSequencesStayWhereTheyBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startSequencers(t, time.Second)
		m.Want(live(2, 1))
		m.Split("m", Split{Live: 1, Version: 2, Share: 0.5})
		awaitSettled(t, m)
		began := map[uint64]int64{}
		for id := range uint64(40) {
			began[id+1] = sequenceAnswer(t, m, 0, edgewise.Sequence{ID: id + 1, Start: true})
		}
		for _, share := range []float64{0.01, 0.99} {
			m.Split("m", Split{Live: 1, Version: 2, Share: share})
			for id, version := range began {
				if got := sequenceAnswer(t, m, 0, edgewise.Sequence{ID: id}); got != version {
					t.Errorf("share %g: sequence %d began with version %d, and version %d answers", share, id, version, got)
				}
			}
		}
		both := map[int64]int{}
		for _, version := range began {
			both[version]++
		}
		if both[1] < 10 || both[2] < 10 {
			t.Errorf("sequences by version: %v", both)
		}
	})
}

func TestACandidateThatIsNotReadyGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{})
		m.Want(live(2, 1))
		awaitSettled(t, m)
		loader.broken[2] = errBroken
		m.Split("m", Split{Live: 1, Version: 2, Share: 1})
		if err := m.Settle(t.Context(), "m"); err == nil {
			t.Error("version 2 is ready")
		}
		if got := answers(t, m, plain(10)); got[1] != 10 {
			t.Errorf("%v", got)
		}
		delete(loader.broken, 2)
		m.Split("m", Split{})
		m.Split("m", Split{Live: 1, Version: 2, Share: 1})
		awaitSettled(t, m)
		if got := answers(t, m, plain(10)); got[2] != 10 {
			t.Errorf("%v", got)
		}
		unwanted := live(2, 1)
		unwanted.Wanted = false
		m.Want(unwanted)
		awaitSettled(t, m)
		if got := m.Statuses(); len(got) != 0 {
			t.Errorf("of a model that is not wanted there are %+v", got)
		}
	})
}

var errBroken = edgewise.Errorf("test", edgewise.Invalid, "broken")

package rollout

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/host"
)

// shadowPlan begins with a stage in which no client gets an answer of the candidate.
func shadowPlan(disagree float64) admin.RolloutPlan {
	plan := testPlan()
	plan.Stages = append([]admin.RolloutStage{{Percent: 0, Requests: 8000}}, plan.Stages...)
	plan.Shadow = &admin.RolloutShadow{Percent: 100, DisagreementPercent: &disagree}
	return plan
}

// TestAShadowTakesAWrongVersionBackBeforeAClientGetsItsAnswers states after how many comparisons that is.
func TestAShadowTakesAWrongVersionBackBeforeAClientGetsItsAnswers(t *testing.T) {
	every := func(period int, values []float64, err error) func(context.Context, int) ([]float64, error) {
		return func(_ context.Context, n int) ([]float64, error) {
			if n%period == 0 {
				return values, err
			}
			return right, nil
		}
	}
	boxes := []admin.CompareRule{{Output: "y", Kind: admin.CompareBoxes}}
	for name, test := range map[string]struct {
		rules    []admin.CompareRule
		disagree float64 // percent that may differ
		shadow   func(ctx context.Context, n int) ([]float64, error)
		within   uint64
		worst    string
	}{
		"1 % wrong labels":                  {nil, 0.5, every(100, []float64{1, 1, 5, 9}, nil), 6000, "9"},
		"1 % wrong labels, 0.1 % may be":    {nil, 0.1, every(100, []float64{1, 1, 5, 9}, nil), 1500, "9"},
		"shifted boxes":                     {boxes, 0.5, every(1, []float64{2, 1, 6, 5}, nil), 60, "6"},
		"wrong for one key of fifty":        {nil, 0.5, every(50, []float64{0, 0, 0, 0}, nil), 1500, "0"},
		"crashes at every 200th, 0.1 % may": {nil, 0.1, every(200, nil, errFailed), 5000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s, stop := newDisk().open(t)
				defer stop()
				b.rules, b.shadow = test.rules, test.shadow
				if _, err := s.Start(t.Context(), "m", shadowPlan(test.disagree)); err != nil {
					t.Fatal(err)
				}
				b.ask(s, 79, func(int) (time.Duration, error) {
					t.Error("a client's request came to the candidate")
					return 0, nil
				})
				r, _ := s.Get("m")
				if r.State != admin.RolloutBack || !strings.Contains(r.Reason, "disagreement") || b.split() != (manager.Split{}) {
					t.Fatalf("%+v", r)
				}
				t.Logf("after %d comparisons", r.Shadow.Compared)
				if r.Shadow.Compared > test.within {
					t.Errorf("it took %d comparisons, want %d", r.Shadow.Compared, test.within)
				}
				worst := r.Shadow.Worst[0]
				if worst.Request == "" || !strings.Contains(string(worst.Live), `"data":[1,1,5,5]`) ||
					!strings.Contains(string(worst.Candidate)+worst.Error, test.worst) || (worst.Error == "") != (worst.Candidate != nil) {
					t.Errorf("the worst difference is %+v, %s, %s", worst, worst.Live, worst.Candidate)
				}
			})
		})
	}
}

func TestAVersionThatAgreesPassesTheStageOfItsShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, stop := newDisk().open(t)
		defer stop()
		b.shadow = func(context.Context, int) ([]float64, error) { return right, nil }
		if _, err := s.Start(t.Context(), "m", shadowPlan(0.5)); err != nil {
			t.Fatal(err)
		}
		b.ask(s, 82, fine)
		r, _ := s.Get("m")
		if r.State != admin.RolloutRunning || r.Stage != 1 || b.split().Share != 0.1 || r.Shadow.Compared < 8000 || r.Shadow.Disagreed > 0 {
			t.Errorf("%+v", r)
		}
		b.ask(s, 60, fine)
		if r, _ := s.Get("m"); r.State != admin.RolloutWatching || b.tap.On() {
			t.Errorf("%+v, the shadow goes on: %v", r, b.tap.On())
		}
	})
}

// TestAShadowWaitsForIdleCoresAndHoldsNobodyUp asks a box without idle cores, and one whose candidate hangs.
func TestAShadowWaitsForIdleCoresAndHoldsNobodyUp(t *testing.T) {
	for name, busy := range map[string]bool{"busy": true, "hangs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s, stop := newDisk().open(t)
				defer stop()
				b.busy.Store(busy)
				b.shadow = func(ctx context.Context, _ int) ([]float64, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				if _, err := s.Start(t.Context(), "m", shadowPlan(0.5)); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				b.ask(s, 30, fine)
				if took := time.Since(began); took != 30*time.Second {
					t.Errorf("3,000 requests at intervals of 10 ms took %v", took)
				}
				r, _ := s.Get("m")
				if r.State != admin.RolloutRunning || r.Stage != 0 || r.Shadow.Compared != 0 || r.Shadow.Dropped < 2500 {
					t.Errorf("%s %d, shadow %+v", r.State, r.Stage, r.Shadow)
				}
				if _, err := s.Stop(t.Context(), "m"); err != nil || b.tap.On() {
					t.Errorf("%v, the shadow goes on: %v", err, b.tap.On())
				}
			})
		})
	}
}

// TestAShadowTakesBackACandidateThatHangs and none that had no core to answer on.
func TestAShadowTakesBackACandidateThatHangs(t *testing.T) {
	began := time.Now()
	reading := func(ran, waited float64, runnable bool) func() map[int]host.Thread {
		return func() map[int]host.Thread {
			part := func(of float64) time.Duration { return time.Duration(of * float64(time.Since(began))) }
			return map[int]host.Thread{1: {Ran: part(ran), Waited: part(waited), Runnable: runnable}}
		}
	}
	hangs := func(ctx context.Context, _ int) ([]float64, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, test := range map[string]struct {
		threads func() map[int]host.Thread
		shadow  func(ctx context.Context, n int) ([]float64, error)
		back    bool
	}{
		"sleeps":            {reading(0, 0, false), hangs, true},
		"runs without end":  {reading(0.9, 0.1, true), hangs, true},
		"has hardly a core": {reading(0.01, 0.99, true), hangs, false},
		"has no core":       {reading(0, 0, true), hangs, false},
		"has no process":    {nil, hangs, false},
		"answers after 25 s": {reading(0, 0, false), func(context.Context, int) ([]float64, error) {
			time.Sleep(25 * time.Second)
			return right, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, s, stop := newDisk().open(t)
				defer stop()
				began = time.Now()
				b.shadow, b.threads = test.shadow, test.threads
				if _, err := s.Start(t.Context(), "m", shadowPlan(0.5)); err != nil {
					t.Fatal(err)
				}
				b.ask(s, 95, fine)
				r, _ := s.Get("m")
				if test.back != (r.State == admin.RolloutBack) || test.back && r.Shadow.Compared > 3 {
					t.Errorf("%s, %q, shadow %+v", r.State, r.Reason, r.Shadow)
				}
				if test.back && (!strings.Contains(r.Reason, "disagreement") || !strings.Contains(r.Shadow.Worst[0].Error, "within 30s")) {
					t.Errorf("%q, %+v", r.Reason, r.Shadow.Worst)
				}
			})
		})
	}
}

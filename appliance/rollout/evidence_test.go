package rollout

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// runs is how many rollouts are simulated of each version.
var runs = flag.Int("rollout.runs", 6, "rollouts of each simulated version")

// version answers simulated requests.
type version func(r *rand.Rand, n int) (took time.Duration, err error)

var errFailed = edgewise.Errorf("test", edgewise.Internal, "failed")

// around is a latency that scatters around a median as inference does.
func around(r *rand.Rand, median time.Duration, sigma float64) time.Duration {
	return time.Duration(float64(median) * math.Exp(sigma*r.NormFloat64()))
}

func good(r *rand.Rand, _ int) (time.Duration, error) {
	var err error
	if r.Float64() < 0.002 {
		err = errFailed
	}
	return around(r, 10*time.Millisecond, 0.25), err
}

// world is where requests are simulated: 200 a second, at random.
type world struct {
	random *rand.Rand
	now    time.Time
}

func newWorld(seed uint64) *world {
	return &world{rand.New(rand.NewPCG(seed, 7)), time.Unix(1_700_000_000, 0)}
}

func newTestTrial() *trial {
	return &trial{
		live: 1, candidate: 2, bound: 500, slower: 0.1, longer: 500 * time.Microsecond, m: newMeasured(), breached: func() {},
	}
}

// stages sends requests in stages by the share of the candidate, a share of 1 being the watch. It returns after how many
// requests to the candidate it was taken back, 0 when it was not.
func (w *world) stages(requests int, shares []float64, live, candidate version) int {
	t, over := newTestTrial(), false
	t.breached = func() { over = true }
	to := 0
	for i, share := range shares {
		watch := share == 1
		if watch {
			t.stakeLate(1. / lateParts)
		} else {
			t.stage(len(shares))
		}
		t.count(w.now, share, watch)
		for n := range requests / len(shares) {
			w.now = w.now.Add(time.Duration(w.random.ExpFloat64() * float64(5*time.Millisecond)))
			number, answer := int64(1), live
			if w.random.Float64() < share {
				number, answer = 2, candidate
				to++
			}
			took, err := answer(w.random, n+i*requests)
			if t.observe(number, w.now, took, err, unmeasured()); over {
				return to
			}
			if watch && n%(requests/len(shares)/lateParts) == 0 {
				t.stakeLate(1. / lateParts)
			}
		}
	}
	return 0
}

// TestGoodVersionsAreNotTakenBack simulates rollouts of 100,000 requests each. At most one in a hundred may be an alarm,
// and none of the seeds that are simulated by default is.
func TestGoodVersionsAreNotTakenBack(t *testing.T) {
	day := func(r *rand.Rand, n int) (time.Duration, error) { // the load of the box comes and goes
		took, err := good(r, n)
		return time.Duration(float64(took) * (1.2 + 0.2*math.Sin(float64(n)/5000))), err
	}
	broad := func(r *rand.Rand, _ int) (time.Duration, error) {
		return time.Duration(r.ExpFloat64() * float64(10*time.Millisecond)), nil
	}
	for name, v := range map[string]version{"steady": good, "by the time of the day": day, "broad latencies": broad} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alarms := 0
			for seed := range uint64(*runs) {
				if newWorld(seed).stages(100_000, []float64{0.05, 0.25, 0.5, 1}, v, v) > 0 {
					alarms++
				}
			}
			t.Logf("%d of %d good versions were taken back", alarms, *runs)
			if alarms > *runs/100 {
				t.Errorf("%d of %d good versions were taken back", alarms, *runs)
			}
		})
	}
}

// quantiles says after how many requests bad versions were taken back, for what decision 0081 states.
func quantiles(took []int) string {
	slices.Sort(took)
	at := func(q float64) int { return took[int(q*float64(len(took)-1))] }
	return fmt.Sprintf("half after %d, nine in ten after %d, 99 in 100 after %d, all after %d", at(0.5), at(0.9), at(0.99), at(1))
}

// TestBadVersionsAreTakenBack states how many requests to the candidate it takes, in 99 of 100 rollouts.
func TestBadVersionsAreTakenBack(t *testing.T) {
	every := func(n int) version {
		return func(r *rand.Rand, _ int) (time.Duration, error) {
			took, err := good(r, 0)
			if r.IntN(n) == 0 {
				err = errFailed
			}
			return took, err
		}
	}
	slower := func(factor float64) version {
		return func(r *rand.Rand, _ int) (time.Duration, error) {
			took, err := good(r, 0)
			return time.Duration(float64(took) * factor), err
		}
	}
	for _, test := range []struct {
		name   string
		bad    version
		shares []float64
		within int // requests to the candidate, in 99 of 100 rollouts
	}{
		{"fails always", every(1), []float64{0.05, 0.25, 0.5}, 20},
		{"fails every tenth request", every(10), []float64{0.05, 0.25, 0.5}, 200},
		{"crashes at every 200th request", every(200), []float64{0.05, 0.25, 0.5}, 10_000},
		{"fails for one key of fifty", every(50), []float64{0.05, 0.25, 0.5}, 1200},
		{"20 % slower", slower(1.2), []float64{0.05, 0.25, 0.5}, 1500},
		{"50 % slower", slower(1.5), []float64{0.05, 0.25, 0.5}, 150},
		{"three times as long for three requests of a hundred", func(r *rand.Rand, _ int) (time.Duration, error) {
			took, err := good(r, 0)
			if r.IntN(33) == 0 {
				took *= 3
			}
			return took, err
		}, []float64{0.05, 0.25, 0.5}, 2000},
		{"fails every tenth request once it is live", nil, []float64{0.05, 0.25, 0.5, 1}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			missed, late, all := 0, 0, []int(nil)
			for seed := range uint64(*runs) {
				bad, before := test.bad, 0
				if bad == nil { // from the 5,000th request of the watch on
					calls := 0
					bad = func(r *rand.Rand, n int) (time.Duration, error) {
						if n >= 3*100_000+5000 {
							calls++
							before = calls
							return every(10)(r, n)
						}
						return good(r, n)
					}
				}
				within := test.within
				took := newWorld(seed).stages(100_000, test.shares, good, bad)
				if test.bad == nil {
					within = 400
					if took > 0 {
						took = before
					}
				}
				all = append(all, took)
				switch {
				case took == 0:
					missed++
				case took > within:
					late++
				}
			}
			t.Logf("%s; %d later than stated, %d missed", quantiles(all), late, missed)
			if missed > 0 || late > *runs/100 {
				t.Errorf("%d of %d were missed, and %d took more than the stated requests", missed, *runs, late)
			}
		})
	}
}

// TestDisagreementIsTakenBackWhenItIsMoreThanAllowed simulates shadows of 100,000 comparisons in three stages.
func TestDisagreementIsTakenBackWhenItIsMoreThanAllowed(t *testing.T) {
	for _, test := range []struct {
		name          string
		wrong, allows float64
		within        int // comparisons, in 99 of 100 rollouts; 0: it is not taken back
	}{
		{"as much as is allowed", 0.005, 0.005, 0},
		{"a tenth of it", 0.0005, 0.005, 0},
		{"1 %, 0.5 % is allowed", 0.01, 0.005, 15_000},
		{"1 %, 0.1 % is allowed", 0.01, 0.001, 3000},
		{"2 %, of one key of fifty", 0.02, 0.005, 3000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			taken, late, all := 0, 0, []int(nil)
			for seed := range uint64(*runs) {
				w, over := newWorld(seed), false
				tr := newTestTrial()
				tr.disagree, tr.breached = test.allows, func() { over = true }
				n := 0
				for ; n < 100_000 && !over; n++ {
					if n%33_334 == 0 {
						tr.stage(3)
						tr.count(w.now, 0, false)
					}
					w.now = w.now.Add(time.Duration(w.random.ExpFloat64() * float64(5*time.Millisecond)))
					var d *admin.RolloutDifference
					if w.random.Float64() < test.wrong {
						d = &admin.RolloutDifference{}
					}
					tr.compared(w.now, d)
				}
				all = append(all, n)
				if over {
					taken++
				}
				if n > test.within {
					late++
				}
			}
			t.Logf("%d of %d taken back: %s; %d later than stated", taken, *runs, quantiles(all), late)
			switch {
			case test.within == 0 && taken > *runs/100:
				t.Errorf("%d of %d were taken back", taken, *runs)
			case test.within > 0 && (taken < *runs || late > *runs/100):
				t.Errorf("%d of %d were taken back, %d of them late", taken, *runs, late)
			}
		})
	}
}

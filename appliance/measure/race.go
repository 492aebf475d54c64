package measure

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of a race between two candidates.
const (
	raceTime    = 3 * time.Second // no new round begins after this
	leastRounds = 5               // before a clear result ends it
	mostRounds  = 25
)

// leastGain is how many times as fast a candidate has to be to take the place of one that came before it.
const leastGain = 1.05

// race runs the timed samples in turn on the fastest candidate so far and on another one, and tells whether that one is
// faster. The error is the other one's. That the first one fails ends the race in favour of the other one.
func (r *running) race(ctx context.Context, number int, challenger Subject) (faster bool, err error) {
	var timed []Sample
	for _, s := range r.samples {
		if s.Timed {
			timed = append(timed, s)
		}
	}
	took := [2][][]time.Duration{make([][]time.Duration, len(timed)), make([][]time.Duration, len(timed))}
	begin := time.Now()
	for round := range mostRounds {
		for i, s := range timed {
			for turn := range took {
				who := (turn + round) % len(took) // none is always the first
				one, err := clock(ctx, [...]Subject{r.subject, challenger}[who], s)
				if err != nil && who == 0 && ctx.Err() == nil {
					r.reject(r.best, err)
					return true, nil
				}
				if err != nil {
					return false, err
				}
				took[who][i] = append(took[who][i], one)
			}
		}
		r.figure(r.best, timed, took[0])
		r.figure(number, timed, took[1])
		if time.Since(begin) > raceTime || round+1 >= leastRounds && r.clear(number) {
			break
		}
	}
	faster, _ = Decide(r.found.Candidates[r.best].Figures, r.found.Candidates[number].Figures)
	return faster, nil
}

func clock(ctx context.Context, s Subject, sample Sample) (time.Duration, error) {
	_, took, free, err := s.Run(ctx, sample.Inputs)
	if err != nil {
		return 0, err
	}
	free()
	return took, nil
}

func (r *running) figure(number int, timed []Sample, took [][]time.Duration) {
	figures := make([]admin.Figure, len(timed))
	for i, s := range timed {
		figures[i] = FigureOf(s.Rows, took[i])
	}
	r.found.Candidates[number].Figures = figures
}

// clear tells whether further rounds would decide nothing else.
func (r *running) clear(number int) bool {
	best, other := r.found.Candidates[r.best].Figures, r.found.Candidates[number].Figures
	for i := range best {
		if best[i].Low <= other[i].High && other[i].Low <= best[i].High {
			return false
		}
	}
	return true
}

// FigureOf summarizes the times of runs, of which there is at least one.
func FigureOf(rows int, runs []time.Duration) admin.Figure {
	sorted := slices.Sorted(slices.Values(runs))
	n := len(sorted)
	low, high := 0, n-1
	if n > 5 { // ranks between which the median is with 95 % confidence
		low = max(int(math.Round((float64(n)-1.96*math.Sqrt(float64(n)))/2))-1, 0)
		high = n - 1 - low
	}
	at := func(i int) float64 { return float64(sorted[i]) / float64(time.Millisecond) }
	return admin.Figure{
		Rows: rows, Milliseconds: (at((n-1)/2) + at(n/2)) / 2, Low: at(low), High: at(high), Runs: n,
	}
}

// Decide tells whether a challenger is faster than the best so far: its gain, the geometric mean over the batch sizes of
// how many times as fast it is, is large enough, and at one of the sizes more than the noise of the measurement.
func Decide(best, challenger []admin.Figure) (faster bool, gain float64) {
	if len(best) == 0 || len(best) != len(challenger) {
		return false, 0
	}
	sum, certain := 0.0, false
	for i := range best {
		sum += math.Log(best[i].Milliseconds / max(challenger[i].Milliseconds, 1e-6))
		certain = certain || challenger[i].High < best[i].Low
	}
	gain = math.Exp(sum / float64(len(best)))
	return certain && gain >= leastGain, gain
}

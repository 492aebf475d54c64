package search

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Compare measures the current configuration and all other values of the first axis in turn, in at least so many rounds where the
// limit allows them. At most 8 are made. Errors: those of Run.
func (s Search) Compare(ctx context.Context, rounds int) (*Found, error) {
	r, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	var all []Candidate
	for v := range s.Axes[0].Values {
		all = append(all, r.base.with(0, v))
	}
	return r.end(ctx, all, min(rounds, mostFinal))
}

// end compares the last candidates in at least so many rounds where the time allows them, and chooses one.
func (r *running) end(ctx context.Context, best []Candidate, rounds int) (*Found, error) {
	if err := r.final(ctx, best, rounds); err != nil {
		return nil, err
	}
	if e := r.found.Excluded[r.base]; e != nil {
		return nil, e // it was measured before, and nothing can be compared with it now
	}
	r.choose(best)
	r.found.Took = time.Since(r.began) - r.found.Paused
	return &r.found, nil
}

// finalists returns the two best candidates that were measured. Where both of them may miss a bound, the best candidate that
// keeps all bounds is the third.
func (r *running) finalists() []Candidate {
	list := r.ranked(slices.Sorted(maps.Keys(r.found.Measured)))
	sure := slices.IndexFunc(list, func(c Candidate) bool { q := r.judged(c); return q.violation == 0 && !q.doubtful })
	if sure > finalists {
		list[finalists] = list[sure]
	}
	if sure >= finalists {
		return list[:finalists+1]
	}
	return list[:min(len(list), finalists)]
}

// final measures the best candidates and the current configuration in turn, so that what changes on the machine meanwhile
// concerns all of them. It makes at least so many rounds where the time allows them. What the candidates were chosen by does not
// count any more: of many the best one was lucky, too.
func (r *running) final(ctx context.Context, best []Candidate, rounds int) error {
	list := slices.Clone(best)
	if !slices.Contains(list, r.base) {
		list = append(list, r.base)
	}
	for _, c := range list {
		delete(r.found.Measured, c)
	}
	d := r.finalTime(len(list), rounds)
	longest := 0.0 // measurement of this comparison, as a part of the limit
	for round := range mostFinal {
		for i := range list {
			left := r.left()
			if round > 0 && left < longest {
				return nil
			}
			if err := r.rung(ctx, list[(i+round)%len(list)], d, "comparison of the best"); err != nil {
				return err
			}
			longest = max(longest, left-r.left())
		}
		if round+1 >= rounds && r.decided(list) || len(list) == 1 {
			break
		}
	}
	return nil
}

// finalTime returns the time of one measurement in the last comparison of n candidates. The wanted rounds fit into the time that is
// left, unless a measurement would be shorter than in the first rungs. Where mostFinal rounds leave time over, measurements take up
// to longestFinal.
func (r *running) finalTime(n, rounds int) time.Duration {
	measurements := time.Duration(r.Objective.measurements())
	opening := max(r.cost-measurements*r.unit, 0)
	left := r.left() * float64(r.Limit)
	fits := func(rounds int) time.Duration {
		return (time.Duration(left/float64(n*rounds)) - opening) / measurements
	}
	longest := max(2*r.unit, finalRung, min(fits(mostFinal), longestFinal))
	return min(max(fits(rounds), r.unit), longest)
}

// decided tells whether further rounds would choose no other candidate.
func (r *running) decided(list []Candidate) bool {
	if r.found.Excluded[r.base] != nil {
		return true
	}
	base := r.judged(r.base)
	for _, c := range list {
		if c == r.base || r.found.Excluded[c] != nil {
			continue
		}
		gain, deviation := r.compared(c)
		open := math.Abs(math.Log(gain/leastGain)) < certain*deviation && !r.clear(c)
		if !r.judged(c).misses() && !base.misses() && open {
			return false
		}
	}
	return true
}

// choose says which candidate is the best.
func (r *running) choose(best []Candidate) {
	f := &r.found
	for c, m := range f.Measured {
		q := r.judged(c)
		gain, deviation := r.compared(c)
		if f.Gains[c] = gain; slices.Contains(best, c) {
			f.Errors[c] = deviation
		}
		if q.why == "" {
			q.why = r.Objective.unproved(m)
		}
		if q.why != "" {
			f.Missed[c] = q.why
		}
		f.Doubtful[c] = q.doubtful
	}
	f.Best, f.Leader, f.Gain = r.base, r.base, 1
	list := r.ranked(best)
	missed := func(c Candidate) bool { return f.Missed[c] != "" }
	switch kept := slices.DeleteFunc(slices.Clone(list), missed); {
	case len(kept) > 0:
		slices.SortStableFunc(kept, func(a, b Candidate) int { return cmp.Compare(f.Gains[b], f.Gains[a]) })
		sure := slices.DeleteFunc(slices.Clone(kept), func(c Candidate) bool { return f.Doubtful[c] })
		if len(sure) > 0 && (f.Gains[sure[0]] > 1 || missed(r.base)) {
			f.Leader = sure[0]
		}
		for _, from := range [][]Candidate{sure, kept} { // one that may miss a bound only where no other one is better
			if f.Best == r.base && len(from) > 0 {
				r.chooseOf(from)
			}
		}
	case missed(r.base) || len(list) == 0:
		f.Reason = r.impossible(append(list, r.base))
	default:
		f.Reason = "only the current configuration keeps the bounds"
	}
}

// chooseOf chooses among candidates that keep the bounds, the best first: of those that are clearly better than the current
// configuration, or all where that keeps no bound, the best one.
func (r *running) chooseOf(list []Candidate) {
	f, better := &r.found, list
	if f.Missed[r.base] == "" {
		better = slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool {
			return c == r.base || f.Gains[c] < leastGain || !r.clear(c)
		})
	}
	if len(better) == 0 {
		f.Reason = fmt.Sprintf("the current configuration is the best: no other one is clearly more than %.0f %% better", 100*(leastGain-1))
		return
	}
	top := better[0]
	for _, c := range better { // of those that are as good, the one that changes the least
		if f.Gains[c] >= f.Gains[better[0]]*(1-equal) && c.Changes() < top.Changes() {
			top = c
		}
	}
	f.Best, f.Gain, f.Reason = top, f.Gains[top], ""
}

// impossible says that no candidate keeps the bounds, and how close the nearest one came.
func (r *running) impossible(list []Candidate) string {
	list = r.ranked(list)
	o, nearest := r.Objective, r.found.Missed[list[0]]
	switch {
	case o.P99 > 0 && o.Throughput == 0 && o.Memory == 0:
		return fmt.Sprintf("no candidate keeps the p99 latency below %v: of the nearest one %s", o.P99, nearest)
	default:
		return "no candidate keeps the bounds: of the nearest one " + nearest
	}
}

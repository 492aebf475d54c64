package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// Axis is one thing that can be set. The first value is the current one.
type Axis struct {
	Name   string
	Values []string
}

// Candidate is one way of running a model: the index of a value for each axis. The zero of all is the current
// configuration.
type Candidate string

// at is the index of an axis.
func (c Candidate) at(axis int) int { return int(c[axis]) }

// At returns the index of the value of an axis.
func (c Candidate) At(axis int) int { return c.at(axis) }

func (c Candidate) with(axis, value int) Candidate {
	b := []byte(c)
	b[axis] = byte(value)
	return Candidate(b)
}

// Changes is on how many axes c differs from the current configuration.
func (c Candidate) Changes() (n int) {
	for _, v := range []byte(c) {
		if v != 0 {
			n++
		}
	}
	return n
}

// Bench measures candidates.
type Bench interface {
	// Open makes a candidate ready to be measured. An Excluded error says why it cannot be used, idle.ErrTraffic that
	// it is measured again after Quiet; any other one ends the search.
	Open(ctx context.Context, c Candidate) (Session, error)
	// Quiet returns when measurements disturb nobody.
	Quiet(ctx context.Context) error
}

// Session is a candidate that is ready. Errors of the measurements are those of Open.
type Session interface {
	// Saturate offers more requests than the candidate can answer.
	Saturate(ctx context.Context, d time.Duration) (Estimate, error)
	// Offer sends requests at a rate, whatever becomes of them. They arrive alike in the same round of all candidates.
	Offer(ctx context.Context, rate float64, d time.Duration, round int) (Point, error)
	Memory() int64
	Close()
}

// Excluded says why a candidate cannot be chosen.
type Excluded struct {
	Reason string
	Wrong  bool // it answers otherwise than the current configuration
}

// Error returns the reason.
func (e *Excluded) Error() string { return e.Reason }

// Search is one search.
type Search struct {
	Axes      []Axis
	Objective Objective
	Bench     Bench
	Limit     time.Duration // of all measurements, without the time in which clients need the machine
	// Tried is called when something was measured; nil: nobody needs to know.
	Tried func(c Candidate, phase string)
}

// Found is the result of a search.
type Found struct {
	Best     Candidate // the current configuration where nothing is clearly better
	Leader   Candidate // like Best, but by the medians of the rounds alone, whatever the noise is
	Gain     float64   // how many times as good as the current configuration it is, by the objective
	Reason   string    // why nothing else was chosen; "" where something was
	Rate     float64   // at which latencies were compared
	Measured map[Candidate]*Measured
	Excluded map[Candidate]*Excluded
	Missed   map[Candidate]string // which bound of the objective a measured candidate does not keep
	Doubtful map[Candidate]bool   // it reaches the wanted throughput only if the noise allows it
	Gains    map[Candidate]float64
	Errors   map[Candidate]float64 // standard errors of the logarithms of Gains, of those that were compared at last
	Cut      string                // what was not searched because the time was over; "" for nothing
	Took     time.Duration
	Paused   time.Duration
}

// Interval is where the gain of a candidate is with 95 % confidence. It is 0 and 0 for the current configuration, whose gain is 1,
// and for those that were not compared at last: they were measured at other times than the current configuration.
func (f *Found) Interval(c Candidate) (low, high float64) {
	gain, deviation := f.Gains[c], f.Errors[c]
	if c.Changes() == 0 || deviation == 0 || deviation >= unknown {
		return 0, 0
	}
	return gain * math.Exp(-confident*deviation), gain * math.Exp(confident*deviation)
}

// confident is how many standard errors are between a value and the ends of the interval in which it is with 95 % confidence.
const confident = 1.96

// Bounds of a search.
const (
	beam          = 3    // candidates that the next axis is tried on
	leastGain     = 1.04 // by which another candidate has to be better than the current configuration
	halved        = 1.5  // rungs of each value of an axis: half of them are measured again
	equal         = 0.02 // gains that differ by less are the same: the one with fewer changes wins
	leastReserved = 0.4  // of the time, for the comparison of the last ones
	mostReserved  = 0.6  // where leastFinal rounds of it take so long
	finalists     = 2    // and a third one, see running.finalists
	mostMissed    = 0.5  // part by which a candidate may miss a bound and still be tried with other axes
	leastFinal    = 3    // rounds of it
	mostFinal     = 8
	// by how many standard errors a gain has to be above 1, and apart from leastGain so that no further round is needed
	certain = 2
	obvious = 4 // the gain in every pair of rounds that is more than noise, whatever the errors are
	// a rung has this many requests when the candidate is saturated, within the bounds of its time
	rungRequests = 30
	leastRung    = 400 * time.Millisecond
	mostRung     = 1500 * time.Millisecond
	finalRung    = 1500 * time.Millisecond // of a measurement in the last comparison
	longestFinal = 5 * time.Second         // of such a measurement where mostFinal rounds leave time over
	longestRung  = 3 * time.Second
)

// MostValues bounds the values of an axis.
const MostValues = 24

// running is a search in progress.
type running struct {
	Search
	found   Found
	began   time.Time
	unit    time.Duration // of the shortest rung
	base    Candidate
	current float64       // throughput of the current configuration
	cost    time.Duration // of a rung, the latest of the shortest ones
}

// start begins with the current configuration.
func (s Search) start(ctx context.Context) (*running, error) {
	r := &running{Search: s, began: time.Now(), unit: leastRung, base: Candidate(make([]byte, len(s.Axes)))}
	r.found = Found{
		Measured: map[Candidate]*Measured{}, Excluded: map[Candidate]*Excluded{}, Missed: map[Candidate]string{},
		Doubtful: map[Candidate]bool{}, Gains: map[Candidate]float64{}, Errors: map[Candidate]float64{},
	}
	return r, r.measureBase(ctx)
}

// Run searches. Errors: ctx's, those of the bench, and Excluded when the current configuration cannot be measured.
func (s Search) Run(ctx context.Context) (*Found, error) {
	r, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	best := []Candidate{r.base}
	for pass := range 2 {
		before := slices.Clone(best)
		for axis := range s.Axes {
			if pass > 0 && axis > 1 || len(s.Axes[axis].Values) < 2 {
				continue
			}
			if r.left() < r.reserved() {
				if pass == 0 {
					r.found.Cut = s.Axes[axis].Name
				}
				break
			}
			if best, err = r.extend(ctx, best[:r.width(axis, best)], axis); err != nil {
				return nil, err
			}
		}
		if pass > 0 || r.found.Cut != "" || slices.Equal(before, best) {
			break
		}
	}
	return r.end(ctx, r.finalists(), leastFinal)
}

// width is on how many of the best candidates an axis is tried: on as many as there is time for, when the axes behind it
// get their share, too.
func (r *running) width(axis int, best []Candidate) int {
	rest := 0
	for _, a := range r.Axes[axis:] {
		if len(a.Values) > 1 {
			rest += len(a.Values)
		}
	}
	values := len(r.Axes[axis].Values)
	time := (r.left() - r.reserved()) * float64(r.Limit) * float64(values) / float64(rest)
	fit := time / (float64(r.cost) * float64(values) * halved)
	return min(max(int(fit), 1), len(best))
}

// reserved is the part of the time that is kept for the comparison of the last ones: what the least number of rounds takes.
func (r *running) reserved() float64 {
	rounds := float64(leastFinal*(finalists+1)) * float64(r.cost) / float64(r.Limit)
	return min(max(rounds, leastReserved), mostReserved)
}

// unseen is the part of the time that the first measurements of the axes after this one take. No value is measured again in
// that time.
func (r *running) unseen(axis int) float64 {
	values := 0
	for _, a := range r.Axes[axis+1:] {
		values += max(len(a.Values)-1, 0)
	}
	return float64(values) * float64(r.cost) / float64(r.Limit)
}

// left is the part of the time that is left.
func (r *running) left() float64 {
	used := time.Since(r.began) - r.found.Paused
	return 1 - float64(used)/float64(r.Limit)
}

// measureBase measures the current configuration, which tells how long rungs have to be.
func (r *running) measureBase(ctx context.Context) error {
	m := &Measured{}
	r.found.Measured[r.base] = m
	err := r.session(ctx, r.base, func(s Session) (err error) {
		if m.Throughput, err = s.Saturate(ctx, leastRung); err != nil {
			return err
		}
		r.unit = rungTime(m.Throughput.Value)
		if r.unit > leastRung {
			m.Throughput, err = s.Saturate(ctx, r.unit)
		}
		return err
	})
	if err == nil {
		r.current = m.Throughput.Value
		r.found.Rate = r.Objective.rate(r.current)
		err = r.rung(ctx, r.base, 2*r.unit, "baseline")
	}
	if e := r.found.Excluded[r.base]; e != nil && err == nil {
		err = e
	}
	r.current = m.Throughput.Value
	r.found.Rate = r.Objective.rate(r.current)
	return err
}

func rungTime(throughput float64) time.Duration {
	return min(max(time.Duration(rungRequests/max(throughput, 1e-3)*float64(time.Second)), leastRung), mostRung)
}

// extend tries all values of an axis on the best candidates so far, the better half of them again for longer, and so on. It
// returns the best of all. The axes behind this one keep the time for a first look.
func (r *running) extend(ctx context.Context, best []Candidate, axis int) ([]Candidate, error) {
	var pool []Candidate
	for _, b := range best {
		for v := range r.Axes[axis].Values {
			if c := b.with(axis, v); !slices.Contains(pool, c) {
				pool = append(pool, c)
			}
		}
	}
	for level := 0; ; level++ {
		for _, c := range pool {
			if m := r.found.Measured[c]; m != nil && m.rungs > level {
				continue
			}
			if r.left() < r.reserved() || level > 0 && r.left() < r.reserved()+r.unseen(axis) {
				break
			}
			if err := r.rung(ctx, c, r.unit<<level, r.Axes[axis].Name); err != nil {
				return nil, err
			}
		}
		pool = r.ranked(pool)
		if len(pool) <= beam {
			return r.kept(pool, len(pool)), nil
		}
		pool = r.kept(pool, max((len(pool)+1)/2, beam))
		if len(pool) <= beam {
			return pool, nil
		}
	}
}

// kept returns the n best of ranked candidates. A candidate that misses a bound and is otherwise better than all that keep the
// bounds comes first: another axis may make it keep the bound. Batches, for instance, raise the throughput.
func (r *running) kept(list []Candidate, n int) []Candidate {
	base, most, promising := r.judged(r.base), 0.0, 0
	for i, c := range list {
		q := r.judged(c)
		gain := r.Objective.gain(q, base)
		if q.violation > mostMissed || gain <= most*leastGain {
			continue
		}
		most = gain
		if q.violation > 0 {
			promising = i
		}
	}
	if promising > 0 {
		c := list[promising]
		list = slices.Insert(slices.Delete(list, promising, promising+1), 0, c)
	}
	return list[:n]
}

// judged says how good a measured candidate is, by what the current configuration carries as far as is known.
func (r *running) judged(c Candidate) qualities {
	return r.Objective.judge(r.found.Measured[c], r.found.Measured[r.base].carries().Value)
}

// ranked sorts candidates that can be chosen, the best first, and drops the others.
func (r *running) ranked(list []Candidate) []Candidate {
	list = slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool {
		return r.found.Excluded[c] != nil || r.found.Measured[c] == nil
	})
	base := r.judged(r.base)
	type gained struct {
		qualities
		gain float64
	}
	all := map[Candidate]gained{}
	for _, c := range list {
		q := r.judged(c)
		all[c] = gained{q, r.Objective.gain(q, base)}
	}
	slices.SortStableFunc(list, func(a, b Candidate) int {
		if d := cmp.Compare(all[a].violation, all[b].violation); d != 0 {
			return d
		}
		return cmp.Or(cmp.Compare(all[b].gain, all[a].gain), cmp.Compare(a.Changes(), b.Changes()))
	})
	return list
}

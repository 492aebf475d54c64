package search

import (
	"math"
	"slices"
)

// pairs returns the logarithms of the gains of m over base in each of the rounds that both have. What a round has in common for
// all candidates does not count in them: its arrivals, and what other programs did meanwhile. nil: the objective looks at
// what single rounds do not tell, as where the p99 latency reaches a bound, or something was not measured in each round.
func (o Objective) pairs(m, base *Measured) (list []float64) {
	w := o.weights()
	if o.P99 > 0 && w.Throughput > 0 || !m.everyRound(w) || !base.everyRound(w) {
		return nil
	}
	for i := range min(m.rungs, base.rungs) {
		list = append(list, math.Log(o.gain(m.round(i), base.round(i))))
	}
	return list
}

// everyRound tells whether each round has measured what counts by the weights.
func (m *Measured) everyRound(w Weights) bool {
	return (w.Throughput == 0 || len(m.throughputs) == m.rungs) && (w.Latency == 0 || len(m.latencies) == m.rungs) &&
		(w.Power == 0 || len(m.energies) == m.rungs)
}

// round returns what one round has measured; 0 for what it has not.
func (m *Measured) round(i int) qualities {
	value := func(logarithms []float64) float64 {
		if i >= len(logarithms) {
			return 0
		}
		return math.Exp(logarithms[i])
	}
	return qualities{
		throughput: value(m.throughputs), latency: value(m.latencies), energy: value(m.energies), memory: float64(max(m.Memory, 1)),
	}
}

// compared returns the gain of a candidate over the current configuration, and the standard error of its logarithm: by the rounds
// of both in pairs, or by the errors of each where that cannot be done.
func (r *running) compared(c Candidate) (gain, deviation float64) {
	o, m, base := r.Objective, r.found.Measured[c], r.found.Measured[r.base]
	if list := o.pairs(m, base); len(list) > 1 {
		return math.Exp(median(list)), spread(list)
	}
	q, current := r.judged(c), r.judged(r.base)
	return o.gain(q, current), o.uncertainty(q, current)
}

// clear tells whether a candidate is better by more than the noise of the comparison, or much better in every pair of rounds,
// however much these differ.
func (r *running) clear(c Candidate) bool {
	gain, deviation := r.compared(c)
	list := r.Objective.pairs(r.found.Measured[c], r.found.Measured[r.base])
	return math.Log(gain) > certain*deviation || len(list) > 0 && slices.Min(list) > math.Log(obvious)
}

// Package search finds the best of many ways of running one model: it measures some in short rungs, the better half of them
// in longer ones, and changes one axis after another. What a way of running is, and how it is measured, its user knows.
package search

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Objective is what a model is tuned for. The zero value is the default: the lowest latency that loses no more than 5 % of
// the throughput.
type Objective struct {
	P99        time.Duration // the most that 99 % of the requests may take; 0: no bound
	Throughput float64       // requests per second that it must carry; 0: no floor
	Memory     int64         // bytes that its process may take; 0: no bound
	Weights    Weights       // what counts among those that keep the bounds; zero: see weights
}

// Weights say how much each quality counts, by the logarithm of its ratio to that of the current configuration.
type Weights struct{ Latency, Throughput, Memory, Power float64 }

// keptThroughput is the part of the current throughput that the default objective keeps.
const keptThroughput = 0.95

// weights are those of the objective: where none are given, with a bound of the p99 latency the throughput that keeps it,
// otherwise the latency.
func (o Objective) weights() Weights {
	w := o.Weights
	sum := w.Latency + w.Throughput + w.Memory + w.Power
	switch {
	case sum > 0:
		return Weights{w.Latency / sum, w.Throughput / sum, w.Memory / sum, w.Power / sum}
	case o.P99 > 0:
		return Weights{Throughput: 1}
	}
	return Weights{Latency: 1}
}

// Energy tells whether the objective looks at the energy of requests.
func (o Objective) Energy() bool { return o.Weights.Power > 0 }

// floor is the throughput that a candidate has to reach, for a throughput of the current configuration.
func (o Objective) floor(current float64) float64 {
	switch {
	case o.Throughput > 0:
		return o.Throughput
	case o.Weights == (Weights{Power: o.Weights.Power}) && o.Energy(): // the lowest energy alone would do nothing well
		if o.P99 > 0 {
			return o.rate(current)
		}
		return keptThroughput * current
	}
	if o.P99 > 0 || o.Weights != (Weights{}) {
		return 0
	}
	return keptThroughput * current
}

// rate is the rate of requests at which latencies are compared: the floor, or half of what the current configuration
// carries, and at most MaxRate.
func (o Objective) rate(current float64) float64 {
	if o.Throughput > 0 {
		return math.Min(o.Throughput, MaxRate)
	}
	return math.Min(current/2, MaxRate)
}

// MaxRate bounds the rates at which requests are offered, per second. What carries more is compared by its throughput.
const MaxRate = 10_000

// Estimate is a measured value and where it is with 95 % confidence.
type Estimate struct{ Value, Low, High float64 }

// Point is what was measured at one rate of requests.
type Point struct {
	Rate     float64  // requests per second, offered
	P50, P99 Estimate // milliseconds
	Requests int
	Energy   float64 // joules per request, of the whole machine; 0: it was not measured
}

// Measured is what is known of a candidate.
type Measured struct {
	Throughput Estimate // requests per second, when more are offered than it can answer
	Points     []Point
	Memory     int64 // bytes
	rungs      int   // that it was measured in

	// the logarithms of what each rung has found, whose spread shows noise that the confidence within a rung does not
	throughputs, latencies, energies []float64
}

// qualities are what an objective looks at.
type qualities struct {
	throughput float64 // within the bound of the p99 latency, if there is one
	latency    float64 // milliseconds, the median at the rate of the objective
	memory     float64
	energy     float64 // joules per request at the rate of the objective
	errors     Weights // standard errors of the logarithms
	violation  float64 // by how much a bound is missed, as a ratio - 1; 0: it keeps all bounds
	why        string  // which one
	doubtful   bool    // its throughput reaches the floor only if the noise allows it
}

// judge says how good a candidate is. current is the throughput of the current configuration.
func (o Objective) judge(m *Measured, current float64) qualities {
	carries := m.carries()
	q := qualities{throughput: carries.Value, memory: float64(max(m.Memory, 1))}
	miss := func(ratio float64, format string, args ...any) {
		if ratio-1 > q.violation {
			q.violation, q.why = ratio-1, fmt.Sprintf(format, args...)
		}
	}
	rate := o.rate(current)
	if o.P99 > 0 {
		bound := milliseconds(o.P99)
		var least float64
		q.throughput, least = carried(m, bound)
		if q.throughput == 0 {
			miss(math.Max(least/bound, 1.0001), "its p99 latency is %.3g ms at the least, and %.3g ms are allowed", least, bound)
		}
	}
	at := closest(m.Points, rate)
	if q.latency, q.energy = at.P50.Value, at.Energy; q.energy <= 0 {
		q.energy = unmeasured
	}
	if len(m.latencies) > 0 {
		q.latency = math.Exp(median(m.latencies))
	}
	q.errors = Weights{
		Latency:    math.Max(at.P50.error(), spread(m.latencies)),
		Throughput: math.Max(m.Throughput.error(), spread(m.throughputs)),
		Power:      spread(m.energies),
	}
	if o.P99 > 0 {
		q.errors.Throughput = math.Max(q.errors.Throughput, carriedError(m, milliseconds(o.P99)))
	}
	reached := q.throughput
	if o.P99 == 0 { // what the noise leaves open is no reason to exclude it
		reached = math.Max(carries.Value, math.Min(carries.High, carries.Value*m.slack()))
	}
	if floor := o.floor(current); reached < floor {
		miss(floor/math.Max(reached, 1e-9), "it carries %.4g requests per second, and %.4g are wanted", reached, floor)
	} else {
		q.doubtful = q.throughput < floor
	}
	if o.Memory > 0 && m.Memory > o.Memory {
		miss(float64(m.Memory)/float64(o.Memory), "it takes %d MiB, and %d MiB are allowed", m.Memory>>20, o.Memory>>20)
	}
	return q
}

// unproved says why a bound of the p99 latency is not known to be kept: at no rate that was measured it was. "" where it is.
// While the search goes on such a candidate may still turn out to keep it at a lower rate.
func (o Objective) unproved(m *Measured) string {
	if o.P99 == 0 {
		return ""
	}
	bound := milliseconds(o.P99)
	_, least := carried(m, bound)
	if least <= bound {
		return ""
	}
	return fmt.Sprintf("its p99 latency is %.3g ms at the least, and %.3g ms are allowed", least, bound)
}

// misses tells whether q misses a bound by more than the noise of the measurement.
func (q qualities) misses() bool { return math.Log1p(q.violation) > certain*q.errors.Throughput }

// measurements returns how many measurements one rung makes: one under full load, and one at each rate.
func (o Objective) measurements() (n int) {
	n = 1
	if o.atRate() {
		n++
	}
	if o.P99 > 0 {
		n += probes
	}
	return n
}

// atRate tells whether a rung measures at the rate of the objective.
func (o Objective) atRate() bool { return o.P99 == 0 || o.weights().Latency > 0 || o.Energy() }

// probes is at how many rates one rung searches for the bound of the p99 latency.
const probes = 2

// uncertainty is the standard error of the logarithm of gain.
func (o Objective) uncertainty(q, base qualities) float64 {
	w := o.weights()
	return math.Hypot(w.Power*math.Hypot(q.errors.Power, base.errors.Power),
		math.Hypot(w.Latency*math.Hypot(q.errors.Latency, base.errors.Latency),
			w.Throughput*math.Hypot(q.errors.Throughput, base.errors.Throughput)))
}

// error is the standard error of the logarithm of the value.
func (e Estimate) error() float64 {
	if e.Low <= 0 || e.High <= e.Low {
		return 0
	}
	return math.Log(e.High/e.Low) / 4
}

// students are the quantiles of Student's distribution for 95 %, by degrees of freedom from 1 on, in those of the normal one.
var students = []float64{6.48, 2.2, 1.62, 1.42, 1.31, 1.25, 1.2, 1.18, 1.15}

// carries returns the median throughput of the rungs, in requests per second.
func (m *Measured) carries() Estimate {
	if len(m.throughputs) == 0 {
		return m.Throughput
	}
	v, t := math.Exp(median(m.throughputs)), m.Throughput
	return Estimate{v, v * t.Low / t.Value, v * t.High / t.Value}
}

// median returns the median of at least one value. One rung during which other programs use the machine hardly changes it.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread is the standard error of the mean of several values, larger where they are few; unknown for less than two.
func spread(values []float64) float64 {
	n := float64(len(values))
	if n < 2 {
		return unknown
	}
	var sum, square float64
	for _, v := range values {
		sum += v / n
	}
	for _, v := range values {
		square += (v - sum) * (v - sum)
	}
	return math.Sqrt(square/(n-1)/n) * students[min(len(values)-2, len(students)-1)]
}

// slack is by how much more than was measured a candidate may carry: less, the more it was measured.
func (m *Measured) slack() float64 { return 1 + 0.1/float64(max(m.rungs, 1)) }

// gain is how many times as good q is as base, by the weights.
func (o Objective) gain(q, base qualities) float64 {
	w := o.weights()
	log := func(weight, better, worse float64) float64 {
		if weight == 0 {
			return 0
		}
		return weight * math.Log(math.Max(better, 1e-9)/math.Max(worse, 1e-9))
	}
	latency := visible(q.latency, base.latency)
	return math.Exp(log(w.Throughput, q.throughput, base.throughput) + log(w.Latency, base.latency, latency) +
		log(w.Memory, base.memory, q.memory) + log(w.Power, base.energy, q.energy))
}

// invisible is a difference in latency, in milliseconds, that clients cannot see: networks and busy cores add more.
const invisible = 0.1

// visible returns latency, moved towards base by at most invisible. Both are in milliseconds.
func visible(latency, base float64) float64 {
	d := latency - base
	return base + math.Copysign(math.Max(math.Abs(d)-invisible, 0), d)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// closest is what was measured at the rate closest to one. Where nothing was, it never answers.
func closest(points []Point, rate float64) Point {
	at, off := Point{P50: Estimate{Value: math.Inf(1)}}, math.Inf(1)
	for _, p := range points {
		if d := math.Abs(math.Log(p.Rate / rate)); d < off {
			at, off = p, d
		}
	}
	return at
}

// carriedError is the standard error of the logarithm of what carried returns.
func carriedError(m *Measured, bound float64) float64 {
	shifted := func(pick func(Estimate) float64) float64 {
		n := Measured{Throughput: m.Throughput}
		for _, p := range m.Points {
			p.P99.Value = pick(p.P99)
			n.Points = append(n.Points, p)
		}
		rate, _ := carried(&n, bound)
		return rate
	}
	low := shifted(func(e Estimate) float64 { return e.High })
	high := shifted(func(e Estimate) float64 { return e.Low })
	if low <= 0 { // it is within the noise whether any rate keeps the bound
		return unknown
	}
	return math.Max(math.Log(high/low)/4, m.Throughput.error())
}

// unmeasured is the energy of requests of which none was answered, in joules.
const unmeasured = 1e6

// unknown is the standard error of a logarithm of which nothing is known.
const unknown = 1

// carried is the highest rate at which the p99 latency keeps a bound, between measured rates by interpolation; 0 for none,
// with the least p99 latency that was measured.
func carried(m *Measured, bound float64) (rate, least float64) {
	low, high := Point{}, Point{Rate: math.Inf(1)}
	least = math.Inf(1)
	for _, p := range m.Points {
		least = math.Min(least, p.P99.Value)
		if p.P99.Value > bound && p.Rate < high.Rate {
			high = p
		}
	}
	for _, p := range m.Points {
		if p.P99.Value <= bound && p.Rate > low.Rate && p.Rate < high.Rate {
			low = p
		}
	}
	switch {
	case low.Rate == 0 && high.Rate <= lightest*m.Throughput.Value*1.01 || math.IsInf(least, 1):
		return 0, least
	case low.Rate == 0:
		return high.Rate / 2, least
	case math.IsInf(high.Rate, 1):
		return math.Max(low.Rate, (low.Rate+m.Throughput.Value)/2), least
	}
	part := math.Log(bound/low.P99.Value) / math.Log(high.P99.Value/low.P99.Value)
	return low.Rate * math.Pow(high.Rate/low.Rate, math.Min(math.Max(part, 0), 1)), least
}

// The rates of the first requests to a candidate, as parts of its throughput.
const (
	lightest = 0.15 // where a bound of the p99 latency that is missed here is missed everywhere
	usual    = 0.7
	heaviest = 0.95
)

// probe is the rate at which the next measurement tells most of where the p99 latency reaches a bound.
func probe(m *Measured, bound float64) float64 { return math.Min(next(m, bound), MaxRate) }

func next(m *Measured, bound float64) float64 {
	passed, failed := 0.0, math.Inf(1)
	for _, p := range m.Points {
		if p.P99.Value > bound {
			failed = math.Min(failed, p.Rate)
		}
	}
	for _, p := range m.Points {
		if p.P99.Value <= bound && p.Rate < failed {
			passed = math.Max(passed, p.Rate)
		}
	}
	most := m.Throughput.Value
	switch {
	case passed == 0 && math.IsInf(failed, 1):
		return usual * most
	case passed == 0:
		return math.Max(failed/2, lightest*most)
	case math.IsInf(failed, 1):
		return math.Min((passed+most)/2, heaviest*most)
	}
	rate, _ := carried(m, bound)
	return math.Min(math.Max(rate, passed*1.02), failed*0.98)
}

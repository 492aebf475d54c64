package perf

import (
	"math/rand/v2"
	"time"
)

// Arrivals says how the arrivals of an open loop are spaced.
type Arrivals uint8

// The spacings.
const (
	Poisson  Arrivals = iota // independent, as from many clients that know nothing of each other
	Constant                 // all equally far apart
)

// schedule yields the arrivals of an open loop, as time since its start. It does not drift: what it yields depends on
// the rate and the seed alone, never on how fast anybody takes from it.
type schedule struct {
	rate     float64 // arrivals a second
	arrivals Arrivals
	random   *rand.Rand
	made     uint64
	seconds  float64 // the arrival before, for Poisson
}

func newSchedule(rate float64, arrivals Arrivals, seed uint64) *schedule {
	return &schedule{rate: rate, arrivals: arrivals, random: rand.New(rand.NewPCG(seed, 0x5ced))}
}

// next returns the next arrival. The first one of a constant schedule is 0.
func (s *schedule) next() time.Duration {
	if s.arrivals == Constant {
		at := float64(s.made) / s.rate
		s.made++
		return time.Duration(at * float64(time.Second))
	}
	s.seconds += s.random.ExpFloat64() / s.rate
	return time.Duration(s.seconds * float64(time.Second))
}

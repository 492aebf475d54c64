package load

import (
	"math"
	"math/rand/v2"
)

// mostParts bounds the parts of the distribution, and so the memory of arrivals.
const mostParts = 1 << 15

// arrivals are the times between random requests, as those of many independent clients: their distribution is exponential.
// It has parts of the same probability, and as many times in a row as there are parts have one of each, in random order. So the
// latencies of few requests differ from run to run by half as much as with independent times, and their mean is the same.
type arrivals struct {
	random *rand.Rand
	parts  int
	left   []float64 // of the parts
}

// newArrivals makes those of about so many requests. The same seed and number give the same times.
func newArrivals(seed uint64, requests float64) *arrivals {
	return &arrivals{random: rand.New(rand.NewPCG(seed, 26)), parts: int(min(max(math.Ceil(requests), 1), mostParts))}
}

// next returns the time until the next request, in units of the mean one.
func (a *arrivals) next() float64 {
	if len(a.left) == 0 {
		a.left = make([]float64, a.parts)
		for i := range a.left {
			a.left[i] = -math.Log((float64(i) + 1 - a.random.Float64()) / float64(a.parts))
		}
		a.random.Shuffle(a.parts, func(i, j int) { a.left[i], a.left[j] = a.left[j], a.left[i] })
	}
	t := a.left[0]
	a.left = a.left[1:]
	return t
}

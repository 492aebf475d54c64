package load

import (
	"math"
	"math/rand/v2"
)

// mostParts bounds the parts of the distribution, and so the memory of arrivals.
const mostParts = 1 << 15

// arrivals are the times between random requests, as those of many independent clients: their distribution is exponential.
// The distribution is divided into parts of the same probability. Of as many times in a row as there are parts, each part has
// one, and their order is random (stratified sampling). So the median latency of few requests differs less from run to run than
// with independent times, and is the same in the mean.
type arrivals struct {
	random *rand.Rand
	parts  int
	left   []float64 // times that next returns before each part is used again
}

// newArrivals makes the times between about so many requests, each from a part of its own up to mostParts. The same seed and
// number of requests give the same times.
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

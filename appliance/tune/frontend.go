package tune

import (
	"time"

	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// frontend is what a core works on a small request outside the path that is measured: reading it and writing its answer. A
// whole one over REST takes 140 to 160 us without the model (docs/benchmarks/scale.md). With it counted, a model of
// microseconds carries no more than clients can bring, and is no better by what they cannot see.
const frontend = 100 * time.Microsecond

// carriedWith is a throughput when the cores also work for the frontends.
func carriedWith(e search.Estimate, cores int) search.Estimate {
	each := frontend.Seconds() / float64(cores) // between two requests
	carried := func(rate float64) float64 { return rate / (1 + rate*each) }
	return search.Estimate{Value: carried(e.Value), Low: carried(e.Low), High: carried(e.High)}
}

// answeredWith is a point when each request also waits for the frontends.
func answeredWith(p search.Point) search.Point {
	const more = float64(frontend) / float64(time.Millisecond)
	for _, e := range []*search.Estimate{&p.P50, &p.P99} {
		e.Value, e.Low, e.High = e.Value+more, e.Low+more, e.High+more
	}
	return p
}

package tune

import (
	"time"

	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// frontend is how long a core reads a small request and writes its answer, which the path that is measured does not do. The
// box takes 140 to 160 us of a core for such a request over REST, the model apart (docs/benchmarks/scale.md). While it is
// counted, no model carries more requests than clients can send, and no gain counts that they cannot see.
const frontend = 100 * time.Microsecond

// carriedWith is the throughput of e when the cores work for the frontends, too.
func carriedWith(e search.Estimate, cores int) search.Estimate {
	each := frontend.Seconds() / float64(cores) // between two requests
	carried := func(rate float64) float64 { return rate / (1 + rate*each) }
	return search.Estimate{Value: carried(e.Value), Low: carried(e.Low), High: carried(e.High)}
}

// answeredWith is p when each request takes the time of the frontends, too.
func answeredWith(p search.Point) search.Point {
	const more = float64(frontend) / float64(time.Millisecond)
	for _, e := range []*search.Estimate{&p.P50, &p.P99} {
		e.Value, e.Low, e.High = e.Value+more, e.Low+more, e.High+more
	}
	return p
}

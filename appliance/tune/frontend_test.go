package tune

import (
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

func TestWhatTheFrontendsTakeIsCounted(t *testing.T) {
	for _, c := range []struct{ alone, want float64 }{
		{0, 0}, {10, 9.995}, {1000, 952.4}, {20_000, 10_000}, {1e9, 20_000},
	} {
		e := carriedWith(search.Estimate{Value: c.alone, Low: c.alone / 2, High: 2 * c.alone}, 2)
		if math.Abs(e.Value-c.want) > 0.001*c.want || e.Low > e.Value || e.High < e.Value {
			t.Errorf("%g requests a second alone are counted as %+v, want %g", c.alone, e, c.want)
		}
	}
	p := answeredWith(search.Point{
		Rate: 5, Requests: 7, P50: search.Estimate{Value: 0.2, Low: 0.1, High: 0.3},
		P99: search.Estimate{Value: 3, Low: 2, High: 4},
	})
	same := func(got, want float64) bool { return math.Abs(got-want) < 1e-9 }
	if p.Rate != 5 || p.Requests != 7 || !same(p.P50.Value, 0.3) || !same(p.P50.Low, 0.2) || !same(p.P99.High, 4.1) {
		t.Errorf("%+v", p)
	}
}

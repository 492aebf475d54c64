package load

import (
	"math"
	"slices"
	"testing"
)

func TestTimesBetweenRequestsAreExponentialInAnyOrder(t *testing.T) {
	const parts = 200
	a, again := newArrivals(1, parts-0.5), newArrivals(1, parts-0.5)
	var runs [2][]float64
	for run := range runs {
		for range parts {
			one := a.next()
			if one != again.next() {
				t.Fatal("the same seed gave other times")
			}
			runs[run] = append(runs[run], one)
		}
		if slices.IsSorted(runs[run]) {
			t.Error("the times are in order")
		}
		sorted := slices.Sorted(slices.Values(runs[run]))
		for i, one := range sorted { // the part of the distribution that is longer
			if longer := math.Exp(-one) * parts; longer < float64(parts-1-i) || longer > float64(parts-i) {
				t.Errorf("the %d. time is %v", i, one)
			}
		}
	}
	if slices.Equal(runs[0], runs[1]) || newArrivals(2, parts).next() == runs[0][0] {
		t.Error("the times repeat")
	}
}

func TestAboutAsManyRequestsArriveInAnyRun(t *testing.T) {
	for _, want := range []float64{0.3, 1, 2.5, 33, 1000, 4 * mostParts} {
		runs, sum, square := 400.0, 0.0, 0.0
		if want > 1000 {
			runs = 20
		}
		for seed := range uint64(runs) {
			a, n := newArrivals(seed, want), 0.0
			for at := a.next(); at <= want; at += a.next() {
				n++
			}
			sum, square = sum+n, square+n*n
		}
		mean := sum / runs
		deviation := math.Sqrt(max(square/runs-mean*mean, 0))
		most := 0.5*math.Sqrt(want) + 1 // independent times differ by twice as much, a single one by itself
		if math.Abs(mean-want) > 0.5+0.01*want || deviation > most {
			t.Errorf("%v requests were to arrive: %.2f did, with a deviation of %.2f where %.2f are allowed", want, mean, deviation, most)
		}
	}
}

func TestArrivalsOfManyRequestsTakeBoundedMemory(t *testing.T) {
	a := newArrivals(1, 1e12)
	a.next()
	if len(a.left) >= mostParts {
		t.Error(len(a.left))
	}
}

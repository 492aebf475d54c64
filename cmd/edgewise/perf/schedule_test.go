package perf

import (
	"math"
	"testing"
	"time"
)

func TestConstantArrivalsAreEquallySpacedAndDoNotDrift(t *testing.T) {
	s := newSchedule(3, Constant, 1)
	for i := range 3_000_000 {
		got := s.next()
		if want := time.Duration(float64(i) * 1e9 / 3); got-want > time.Microsecond || want-got > time.Microsecond {
			t.Fatalf("arrival %d: got %v, want %v", i, got, want)
		}
	}
}

func TestPoissonArrivalsHaveTheMeanAndTheSpreadOfTheirRate(t *testing.T) {
	const rate, n = 1000, 200_000
	s := newSchedule(rate, Poisson, 7)
	var before time.Duration
	var sum, squares float64
	for range n {
		at := s.next()
		gap := (at - before).Seconds()
		if gap < 0 {
			t.Fatalf("arrival at %v after %v", at, before)
		}
		sum, squares, before = sum+gap, squares+gap*gap, at
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(mean*rate-1) > 0.02 || math.Abs(deviation*rate-1) > 0.02 {
		t.Errorf("gaps have mean %v and deviation %v, want 1/%d of each", mean, deviation, rate)
	}
}

func TestTheSameSeedGivesTheSameArrivals(t *testing.T) {
	a, b, other := newSchedule(10, Poisson, 1), newSchedule(10, Poisson, 1), newSchedule(10, Poisson, 2)
	same := true
	for range 100 {
		x, y := a.next(), b.next()
		if x != y {
			t.Fatalf("%v and %v", x, y)
		}
		same = same && x == other.next()
	}
	if same {
		t.Error("another seed gives the same arrivals")
	}
}

package perf

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// duration draws times of every magnitude, the longest that the histogram tells apart included.
func duration() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		bits := rapid.IntRange(0, topBits-1).Draw(t, "bits")
		return time.Duration(rapid.Int64Range(0, 1<<bits).Draw(t, "ns"))
	})
}

func TestQuantilesAreWithinHalfAPercentOfTheSortedSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(duration(), 1, 300).Draw(t, "samples")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h Histogram
		for _, d := range samples {
			h.Record(d)
		}
		slices.Sort(samples)
		want := samples[rankOf(q, uint64(len(samples)))-1]
		if got := h.Quantile(q); math.Abs(float64(got-want)) > 0.005*float64(want) {
			t.Fatalf("quantile %v of %v: got %v, want %v", q, samples, got, want)
		}
	})
}

func TestRankIsTheSmallestThatCoversTheShare(t *testing.T) {
	for _, c := range []struct {
		q     float64
		count uint64
		want  uint64
	}{{0, 10, 1}, {0.5, 10, 5}, {0.5, 11, 6}, {0.99, 100, 99}, {0.999, 100, 100}, {1, 7, 7}, {2, 7, 7}, {-1, 7, 1}} {
		if got := rankOf(c.q, c.count); got != c.want {
			t.Errorf("rank of %v in %d: got %d, want %d", c.q, c.count, got, c.want)
		}
	}
}

func TestBucketsAreOrderedAndHoldTheirMiddle(t *testing.T) {
	before := time.Duration(-1)
	for i := range buckets {
		middle := middleOf(i)
		if middle <= before || bucketOf(middle) != i {
			t.Fatalf("bucket %d has the middle %d after %d, which belongs to bucket %d", i, middle, before, bucketOf(middle))
		}
		before = middle
	}
	if got := bucketOf(MaxLatency); got != buckets-1 {
		t.Errorf("bucket of MaxLatency is %d, want %d", got, buckets-1)
	}
}

func TestMergedHistogramsEqualOneThatSawEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a, b, all Histogram
		for _, d := range rapid.SliceOf(duration()).Draw(t, "a") {
			a.Record(d)
			all.Record(d)
		}
		for _, d := range rapid.SliceOf(duration()).Draw(t, "b") {
			b.Record(d)
			all.Record(d)
		}
		a.Merge(&b)
		if a.counts != all.counts || a.count != all.count || a.Min() != all.Min() || a.Max() != all.Max() || a.Mean() != all.Mean() {
			t.Fatalf("merged: %d %v %v %v, want %d %v %v %v", a.count, a.Min(), a.Max(), a.Mean(), all.count, all.Min(), all.Max(), all.Mean())
		}
	})
}

func TestTimesBeyondTheLongestKeepTheirMaximum(t *testing.T) {
	var h Histogram
	h.Record(5 * MaxLatency)
	h.Record(-time.Second)
	if h.Max() != 5*MaxLatency || h.Quantile(1) != 5*MaxLatency || h.Min() != 0 || h.Quantile(0.5) != 0 {
		t.Errorf("got max %v, p100 %v, min %v, p50 %v", h.Max(), h.Quantile(1), h.Min(), h.Quantile(0.5))
	}
}

func TestEmptyHistogramIsAllZero(t *testing.T) {
	var h Histogram
	if h.Count() != 0 || h.Quantile(0.99) != 0 || h.Mean() != 0 || h.Min() != 0 || h.Max() != 0 {
		t.Errorf("got %d %v %v %v %v", h.Count(), h.Quantile(0.99), h.Mean(), h.Min(), h.Max())
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	h := &Histogram{}
	if n := testing.AllocsPerRun(100, func() { h.Record(time.Millisecond) }); n != 0 {
		t.Errorf("a record allocates %v times", n)
	}
}

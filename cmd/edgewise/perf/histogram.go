package perf

import (
	"math/bits"
	"time"
)

// The layout of a Histogram: values below 2^subBits nanoseconds have a bucket each; above, every power of two is split
// into subCount buckets of equal width.
const (
	subBits  = 7
	subCount = 1 << subBits
	topBits  = 43 // values of this many bits or more are counted in the last bucket
	buckets  = (topBits - subBits + 1) * subCount
)

// MaxLatency is the longest time that a Histogram tells apart, about 2.4 hours. Longer ones count as this long in
// percentiles; Max and Mean stay exact.
const MaxLatency = time.Duration(1<<topBits - 1)

// Histogram counts times in buckets that are at most 1/128 of their value wide, so that every percentile is within
// 0.5 % of the sample it stands for. It takes 37 KiB whatever it holds. The zero value is empty and ready; it is not
// safe for concurrent use.
type Histogram struct {
	count    uint64
	sum      float64 // nanoseconds
	min, max time.Duration
	counts   [buckets]uint64
}

// Record counts d; a negative one counts as 0.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	if h.count == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.count++
	h.sum += float64(d)
	h.counts[bucketOf(min(d, MaxLatency))]++
}

// bucketOf returns the index of the bucket of d, which is between 0 and MaxLatency.
func bucketOf(d time.Duration) int {
	v := uint64(d)
	if v < subCount {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift*subCount + int(v>>shift)
}

// middleOf returns the middle of bucket i.
func middleOf(i int) time.Duration {
	if i < 2*subCount {
		return time.Duration(i)
	}
	shift := i/subCount - 1
	low := uint64(i-shift*subCount) << shift
	return time.Duration(low + (1<<shift-1)/2)
}

// Merge adds everything that o has counted.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.count += o.count
	h.sum += o.sum
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// Count returns the number of times recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Min returns the shortest time, 0 when there is none.
func (h *Histogram) Min() time.Duration { return h.min }

// Max returns the longest time, 0 when there is none.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the mean, 0 when there is none.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.count))
}

// Quantile returns the time that the share q of all times, 0 to 1, does not exceed: within 0.5 % of the sample of that
// rank, and never outside Min and Max. It is 0 when nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := rankOf(q, h.count)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return h.clamp(i, middleOf(i))
		}
	}
	return h.max
}

// clamp keeps a bucket's value inside what was seen; the last bucket has no upper end, so that its value is the
// longest.
func (h *Histogram) clamp(bucket int, d time.Duration) time.Duration {
	if bucket == buckets-1 && h.max > MaxLatency {
		return h.max
	}
	return min(max(d, h.min), h.max)
}

// rankOf returns which of count sorted samples, from 1, is the quantile q.
func rankOf(q float64, count uint64) uint64 {
	exact := min(max(q, 0), 1) * float64(count)
	rank := uint64(exact)
	if float64(rank) < exact {
		rank++
	}
	return min(max(rank, 1), count)
}

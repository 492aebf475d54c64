package activity

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// The buckets of a histogram of times: below 16 us one each, then 16 for each power of two, so that a percentile is at
// most 6.25 % too high. The last one holds everything from about 18 minutes on.
const (
	subBits  = 4
	subCount = 1 << subBits
	powers   = 26
	buckets  = subCount * (powers + 1)
)

// counts are the numbers of times in each bucket.
type counts [buckets]uint64

// histogram counts times. It is safe for concurrent use.
type histogram struct{ buckets [buckets]atomic.Uint64 }

func (h *histogram) add(d time.Duration) { h.buckets[bucketOf(d)].Add(1) }

func (h *histogram) read() (c counts) {
	for i := range h.buckets {
		c[i] = h.buckets[i].Load()
	}
	return c
}

func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < subCount {
		return int(us)
	}
	power := bits.Len64(us) - 1 - subBits
	return min(subCount*(power+1)+int(us>>power)-subCount, buckets-1)
}

// upper returns the longest time, in microseconds, that falls into a bucket.
func upper(bucket int) float64 {
	if bucket < subCount {
		return float64(bucket)
	}
	power := bucket/subCount - 1
	return float64((uint64(bucket%subCount+subCount+1) << power) - 1)
}

// percentile returns the quantile q, in microseconds, of the times added between two readings; nil without times.
func percentile(before, after *counts, q float64) *float64 {
	total := uint64(0)
	for i := range after {
		total += after[i] - before[i]
	}
	if total == 0 {
		return nil
	}
	rank, seen := max(1, uint64(q*float64(total)+0.5)), uint64(0)
	for i := range after {
		if seen += after[i] - before[i]; seen >= rank {
			value := upper(i)
			return &value
		}
	}
	value := upper(buckets - 1)
	return &value
}

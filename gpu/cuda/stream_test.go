package cuda_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

func TestEventsOrderStreams(t *testing.T) {
	c := retain(t)
	in, out := made[*cuda.Stream](t)(c.MakeStream()), made[*cuda.Stream](t)(c.MakeStream())
	from, to := made[*cuda.Pinned](t)(c.MemHostAlloc(1<<20)), made[*cuda.Pinned](t)(c.MemHostAlloc(1<<20))
	there := made[*cuda.Event](t)(c.MakeEvent())
	p := alloc(t, c, 1<<20)
	control.Set(fakegpu.Bandwidth, 50<<20)
	for i := range from.Bytes() {
		from.Bytes()[i] = byte(i * 7)
	}
	err := errors.Join(in.MemcpyHtoDAsync(p, from, 0, 1<<20), there.Record(in), out.WaitEvent(there),
		out.MemcpyDtoHAsync(to, 0, p, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if string(from.Bytes()) != string(to.Bytes()) {
		t.Error("the second stream did not wait for the first")
	}
}

// TestCopiesOverlapKernels proves that the three engines work at the same time when streams let them: copies of 40 ms
// each and kernels of 40 ms each take much less together than one after the other.
func TestCopiesOverlapKernels(t *testing.T) {
	c := retain(t)
	const n, each, times = 1 << 20, 40 * time.Millisecond, 4
	control.Set(fakegpu.Bandwidth, int64(n*time.Second/each))
	control.Set(fakegpu.KernelNS, int64(each))
	streams := [3]*cuda.Stream{}
	for i := range streams {
		streams[i] = made[*cuda.Stream](t)(c.MakeStream())
	}
	from, to := made[*cuda.Pinned](t)(c.MemHostAlloc(n)), made[*cuda.Pinned](t)(c.MemHostAlloc(n))
	a, b := alloc(t, c, n), alloc(t, c, n)
	scale := kernel(t, c)
	const tries = 5 // a busy machine may take the time that is gained
	best := 3 * times * each
	for range tries {
		best = min(best, overlapped(t, times, streams, func() error {
			return errors.Join(
				streams[0].MemcpyHtoDAsync(a, from, 0, n),
				scale.Launch(cuda.Dim3{X: 1, Y: 1, Z: 1}, cuda.Dim3{X: 32, Y: 1, Z: 1}, 0, streams[1], uint64(b), uint64(b), 0, 0),
				streams[2].MemcpyDtoHAsync(to, 0, b, n),
			)
		}))
		if best <= 2*times*each {
			return
		}
	}
	t.Errorf("copies and kernels took %v together, %v one after the other", best, 3*times*each)
}

// overlapped returns how long it takes to begin something several times, and until all streams have ended it.
func overlapped(t *testing.T, times int, streams [3]*cuda.Stream, begin func() error) time.Duration {
	t.Helper()
	start := time.Now()
	for range times {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range streams {
		if err := s.Synchronize(); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start)
}

func TestManyGoroutinesUseOneContext(t *testing.T) {
	c := retain(t)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			s, err := c.MakeStream()
			if err != nil {
				t.Error(err)
				return
			}
			p, err := c.MemHostAlloc(256)
			if err != nil {
				t.Error(err)
				return
			}
			d, err := c.MemAlloc(256)
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if err := errors.Join(s.MemcpyHtoDAsync(d, p, 0, 256), s.Synchronize()); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(s.Close(), p.Close(), c.MemFree(d)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

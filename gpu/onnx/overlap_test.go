package onnx

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// TestCopiesOverlapRuns proves the pipeline: with 20 ms for each copy and each run, batches through three slots take
// much less time than through one, and every one of them has its own answer.
func TestCopiesOverlapRuns(t *testing.T) {
	const tries, enough = 5, 1.5 // a busy machine may take the time that was gained
	gain := 0.0
	for range tries {
		if gain = max(gain, pipelined(t)); gain >= enough {
			return
		}
	}
	t.Errorf("three slots answer %.2f times as fast as one: want %v times", gain, enough)
}

// pipelined returns how many times as fast three slots answer as one does.
func pipelined(t *testing.T) float64 {
	t.Helper()
	const n, each, batches = 1 << 16, 20 * time.Millisecond, 8
	took := map[int]time.Duration{}
	for _, slots := range []int{1, 3} {
		ctx, finish := retain(t, nil)
		a, err := doubling(ctx, n, []int{1}, slots)
		if err != nil {
			t.Fatal(err)
		}
		control.Set(fakegpu.Bandwidth, int64(4*n*time.Second/each))
		control.Set(fakegpu.KernelNS, int64(each))
		start := time.Now()
		var clients sync.WaitGroup
		for client := range batches {
			clients.Go(func() { once(t, a, n, float32(client+1)) })
		}
		clients.Wait()
		took[slots] = time.Since(start)
		control.Reset()
		finish(a)
	}
	return took[1].Seconds() / took[3].Seconds()
}

// once runs one batch of one row.
func once(t *testing.T, a *accelerated, n int, v float32) {
	in, free := numbers(a, 1, n, v)
	defer free()
	r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{"y"}, edgewise.RunOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	doubled(t, r.Outputs[0].Data, v)
	r.Free()
}

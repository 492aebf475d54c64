package roofline

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/host"
)

// Bounds of a measurement.
const (
	most     = 2 * time.Minute // of all of it
	each     = 600 * time.Millisecond
	least    = 5 // repetitions
	leastSet = 64 << 20
	mostSet  = 1 << 30
	inCaches = 4 // times the largest cache is read
)

// measure runs the models and reads memory. Errors: ctx's; those of the runtime.
func (m *Meter) measure(ctx context.Context) (*admin.Roofline, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	r := &admin.Roofline{
		Hardware: m.config.Hardware, Cores: m.config.Cores, Measured: began.UTC(), Cache: host.LargestCache("/"),
	}
	dir, err := os.MkdirTemp(m.config.Folder, "roofline")
	if err != nil {
		return nil, edgewise.Errorf("roofline.measure", edgewise.Internal, "%w", err)
	}
	defer os.RemoveAll(dir)
	for i, threads := range []int{1, m.config.Cores} {
		took, err := m.run(ctx, filepath.Join(dir, strconv.Itoa(i)), matrices(), threads)
		if err != nil {
			return nil, err
		}
		r.Compute[i] = max(operations/took.Seconds(), r.Compute[0]) // where others had the cores, one of them is a lower bound
	}
	took, err := m.run(ctx, filepath.Join(dir, "operators"), operators(), 1)
	if err != nil {
		return nil, err
	}
	r.Operator = float64(took) / float64(time.Microsecond) / chain
	r.Read[0], r.Read[1] = reads(ctx, r.Cache, m.config.Cores)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.Took = time.Since(began).Seconds()
	return r, nil
}

// run loads a model with so many threads, and returns the shortest time of its runs.
func (m *Meter) run(ctx context.Context, dir string, file []byte, threads int) (took time.Duration, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, edgewise.Errorf("roofline.run", edgewise.Internal, "%w", err)
	}
	instance, err := m.config.Load(ctx, dir, file, threads)
	if err != nil {
		return 0, err
	}
	defer func() { _ = instance.Close() }()
	in := []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 1}, Data: make([]byte, 4)}}
	took = math.MaxInt64
	for i, begin := 0, time.Now(); i < least || time.Since(begin) < each; i++ {
		result, err := instance.Run(ctx, in, []string{"y"}, edgewise.RunOptions{})
		if ctx.Err() != nil {
			if err == nil {
				result.Free()
			}
			return 0, context.Cause(ctx)
		}
		if err != nil {
			return 0, err
		}
		took = min(took, result.Infer)
		result.Free()
	}
	return max(took, time.Nanosecond), nil
}

// reads is how many bytes a second one core and all cores read from memory: a search, in vector instructions, for a byte
// that memory larger than the largest cache does not hold. Each core has a part of it for itself.
func reads(ctx context.Context, cache int64, cores int) (one, all float64) {
	size := min(max(inCaches*cache, leastSet), mostSet, max(host.AvailableMemory("/")/4, leastSet))
	part := int(size) / cores
	parts := make([][]byte, cores)
	for i := range parts {
		parts[i] = slices.Repeat([]byte{1}, part) // written, so that it is memory of its own
	}
	whole := func(parts [][]byte) time.Duration {
		var work sync.WaitGroup
		begin := time.Now()
		for _, p := range parts {
			work.Go(func() { bytes.IndexByte(p, 2) })
		}
		work.Wait()
		return time.Since(begin)
	}
	inTurn := func() time.Duration {
		begin := time.Now()
		for _, p := range parts {
			bytes.IndexByte(p, 2)
		}
		return time.Since(begin)
	}
	read := float64(part * cores)
	for i, begin := 0, time.Now(); (i < least || time.Since(begin) < each) && ctx.Err() == nil; i++ {
		one = max(one, read/inTurn().Seconds())
		all = max(all, read/whole(parts).Seconds())
	}
	return one, all
}

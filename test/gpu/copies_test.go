package gpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
)

// copies measures copies to the device and back, out of pinned memory and out of other memory. Pinned memory is to be
// at least as fast everywhere.
func (r *report) copies(s settings) (err error) {
	c, err := open(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stream, err := c.MakeStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	for _, n := range []int64{64 << 10, 1 << 20, 16 << 20, 64 << 20} {
		if err := r.copySize(c, stream, n, s.each/8); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) copySize(c *cuda.Ctx, stream *cuda.Stream, n int64, each time.Duration) (err error) {
	pinned, err := c.MemHostAlloc(n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pinned.Close()) }()
	device, err := c.MemAlloc(n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.MemFree(device)) }()
	other := make([]byte, n)
	speed := map[string]float64{}
	for name, copyOnce := range map[string]func() error{
		"in, pinned":  func() error { return errors.Join(stream.MemcpyHtoDAsync(device, pinned, 0, n), stream.Synchronize()) },
		"out, pinned": func() error { return errors.Join(stream.MemcpyDtoHAsync(pinned, 0, device, n), stream.Synchronize()) },
		"in, other":   func() error { return c.MemcpyHtoD(device, other) },
		"out, other":  func() error { return c.MemcpyDtoH(other, device) },
	} {
		times, took, err := repeat(each, copyOnce)
		if err != nil {
			return err
		}
		speed[name] = float64(n) * float64(times) / took.Seconds() / 1e9
		r.add(line{Name: fmt.Sprintf("copy %s, %d KiB", name, n>>10), Value: speed[name], Unit: "GB/s"})
	}
	for _, way := range []string{"in", "out"} {
		r.copied[way] = speed[way+", pinned"] // of the largest at the end
		r.add(line{
			Name:  fmt.Sprintf("copy %s, %d KiB, pinned to other", way, n>>10),
			Value: speed[way+", pinned"] / speed[way+", other"], Unit: "ratio", Gate: 0.98,
		})
	}
	return nil
}

// repeat does something for a time, at least once.
func repeat(each time.Duration, do func() error) (times int, took time.Duration, err error) {
	start := time.Now()
	for took < each {
		if err := do(); err != nil {
			return times, took, err
		}
		times++
		took = time.Since(start)
	}
	return times, took, nil
}

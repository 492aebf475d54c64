package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// subject is a model that is measured.
type subject struct {
	name  string
	model *onnxgen.Model
	row   edgewise.Shape
	most  int
	cudnn bool // it has convolutions
}

// tolerance bounds the difference between GPU and CPU, relative in the two-norm. TF32, which is on by default, keeps ten bits.
const tolerance = 3e-3

func (r *report) models(ctx context.Context, s settings, logger *slog.Logger) error {
	var errs []error
	for _, m := range []subject{
		{"mlp", onnxgen.MLP(1), edgewise.Shape{64}, 256, false},
		{"mobilenetv2", onnxgen.MobileNetV2(1), edgewise.Shape{3, 224, 224}, 64, true},
	} {
		if m.cudnn && !r.Machine.CuDNN() {
			r.add(line{Name: m.name + ": not measured, cuDNN is missing", Unit: ""})
			continue
		}
		if err := r.subject(ctx, s, m, logger.With("subject", m.name)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// subject loads a model three times, on the CPU, on the GPU the plain way and through a ring, and compares them.
func (r *report) subject(ctx context.Context, s settings, m subject, logger *slog.Logger) (err error) {
	dir, err := os.MkdirTemp("", "gputest-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := m.model.Save(dir); err != nil {
		return err
	}
	b := onnx.New(onnx.Config{Library: s.library, GPU: onnx.GPU{Driver: s.driver, Folders: s.folders}, Logger: logger})
	load := func(on edgewise.Device, buckets string) (edgewise.Instance, error) {
		v := &edgewise.Version{ID: edgewise.ModelID{Name: m.name, Version: 1}, Model: &edgewise.Model{
			Name: m.name, Platform: onnx.Platform, MaxBatchSize: int32(m.most), Parameters: map[string]edgewise.ModelParam{edgewise.BucketsParameter: {StringValue: buckets}},
		}}
		return b.Load(ctx, v, dir, on)
	}
	cpu, err := load(edgewise.Device{}, "off")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	speed := map[string]float64{}
	for way, buckets := range map[string]string{"plain": "off", "ring": ""} {
		start := time.Now()
		i, err := load(edgewise.Device{Kind: edgewise.GPU}, buckets)
		if err != nil {
			return err
		}
		r.add(line{Name: m.name + ", " + way + ": load and warm-up", Value: time.Since(start).Seconds(), Unit: "s"})
		for _, rows := range []int{1, 8, 32} {
			rows = min(rows, m.most)
			if err := r.compare(ctx, m, way, rows, cpu, i); err != nil {
				return errors.Join(err, i.Close())
			}
			speed[fmt.Sprint(way, rows)], err = r.loop(ctx, s, m, way, rows, i)
			if err != nil {
				return errors.Join(err, i.Close())
			}
		}
		if err := i.Close(); err != nil {
			return err
		}
	}
	r.add(line{Name: m.name + ": batches of 32 to batches of 1", Value: speed["ring32"] / speed["ring1"], Unit: "ratio", Gate: 8})
	r.add(line{Name: m.name + ": ring to plain, batches of 32", Value: speed["ring32"] / speed["plain32"], Unit: "ratio", Gate: 1})
	return nil
}

func (m subject) input(rows int, seed float64) edgewise.Tensor {
	t := edgewise.Tensor{Name: m.model.Graph.Inputs[0].Name, Type: edgewise.FP32, Shape: append(edgewise.Shape{int64(rows)}, m.row...)}
	n, _ := t.Shape.Elements()
	for i := range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(math.Sin(float64(i)*0.37+seed))))
	}
	return t
}

func (m subject) output() []string { return []string{m.model.Graph.Outputs[0].Name} }

func (r *report) compare(ctx context.Context, m subject, way string, rows int, cpu, gpu edgewise.Instance) error {
	in := []edgewise.Tensor{m.input(rows, 1)}
	want, err := cpu.Run(ctx, in, m.output())
	if err != nil {
		return err
	}
	defer want.Free()
	got, err := gpu.Run(ctx, in, m.output())
	if err != nil {
		return err
	}
	defer got.Free()
	l := line{Name: fmt.Sprintf("%s, %s, batch %d: difference to the CPU", m.name, way, rows), Value: distance(got.Outputs[0].Data, want.Outputs[0].Data), Unit: "rel. L2"}
	if !(l.Value <= tolerance) && !r.Fake {
		l.Failed = fmt.Sprintf("more than %g", tolerance)
	}
	if math.IsNaN(l.Value) || math.IsInf(l.Value, 0) {
		l.Value = -1 // JSON has no such numbers
	}
	r.add(l)
	return nil
}

func distance(a, b []byte) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var difference, size float64
	for i := 0; i < len(a); i += 4 {
		x, y := float64(math.Float32frombits(binary.LittleEndian.Uint32(a[i:]))), float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
		difference += (x - y) * (x - y)
		size += y * y
	}
	return math.Sqrt(difference / max(size, 1e-30))
}

// loop keeps the device busy with batches from pinned memory, as many at a time as the box would have.
func (r *report) loop(ctx context.Context, s settings, m subject, way string, rows int, i edgewise.Instance) (float64, error) {
	const clients = 2
	var done atomic.Int64
	errs := make([]error, clients)
	start := time.Now()
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() { errs[c] = hammer(ctx, m, rows, i, start.Add(s.each), &done) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	speed := float64(done.Load()) / time.Since(start).Seconds()
	r.add(line{Name: fmt.Sprintf("%s, %s, batch %d", m.name, way, rows), Value: speed, Unit: "rows/s"})
	return speed, nil
}

func hammer(ctx context.Context, m subject, rows int, i edgewise.Instance, until time.Time, done *atomic.Int64) error {
	in := m.input(rows, 2)
	if a, ok := i.(edgewise.Allocator); ok {
		data, free, err := a.Alloc(len(in.Data))
		if err != nil {
			return err
		}
		defer free()
		copy(data, in.Data)
		in.Data = data
	}
	for first := true; first || time.Now().Before(until); first = false {
		result, err := i.Run(ctx, []edgewise.Tensor{in}, m.output())
		if err != nil {
			return err
		}
		result.Free()
		done.Add(int64(rows))
	}
	return nil
}

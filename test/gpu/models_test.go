package gpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
)

func (r *report) models(ctx context.Context, s settings, logger *slog.Logger) error {
	var errs []error
	for _, m := range subjects(s.fake) {
		if m.cudnn && !r.Machine.CuDNN() {
			r.add(line{Name: m.name + ": not measured, cuDNN is missing"})
			continue
		}
		bench := &bench{report: r, settings: s, subject: m, speed: map[string]float64{}}
		if err := bench.run(ctx, logger.With("subject", m.name)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// bench measures one subject.
type bench struct {
	*report
	settings
	subject

	dir     string
	backend *onnx.Backend
	speed   map[string]float64 // rows in a second, by way and batch
}

// The ways in which a subject runs on the GPU.
const (
	plain = "plain" // ONNX Runtime copies, runs and waits
	ring  = "ring"  // as in the box
	alone = "alone" // the ring with one slot: nothing overlaps
)

// run loads the subject on the CPU and in each way on the GPU, and compares answers and speeds.
func (b *bench) run(ctx context.Context, logger *slog.Logger) (err error) {
	if b.dir, err = os.MkdirTemp("", "gputest-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.make().Save(b.dir); err != nil {
		return err
	}
	b.backend = onnx.New(onnx.Config{
		Library: b.library, GPU: onnx.GPU{Driver: b.driver, Folders: b.folders}, Kept: filepath.Join(b.dir, "kept"), Logger: logger,
	})
	cpu, err := b.load(ctx, edgewise.Device{}, plain)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	for _, way := range []string{plain, ring, alone} {
		if err := b.way(ctx, way, cpu); err != nil {
			return err
		}
	}
	b.judge()
	return b.precisions(ctx, cpu)
}

// precision is a way to multiply, and how far it may be from the CPU's FP32.
type precision struct {
	name      string
	by        edgewise.Accelerator
	tolerance float64
}

// precisions compares each precision with the CPU. TensorRT loads twice: the second time with the engine that it has kept.
func (b *bench) precisions(ctx context.Context, cpu edgewise.Instance) error {
	cuda := func(tf32 string) edgewise.Accelerator {
		return edgewise.Accelerator{Name: "cuda", Parameters: map[string]string{"use_tf32": tf32}}
	}
	list := []precision{{"FP32", cuda("0"), b.tolerance}, {"TF32", cuda("1"), max(b.tolerance, 3e-3)}}
	if b.Machine.TensorRT != "" {
		tensorRT := edgewise.Accelerator{Name: "tensorrt"}
		half := edgewise.Accelerator{Name: "tensorrt", Parameters: map[string]string{"precision_mode": "FP16"}}
		list = append(list, precision{"TensorRT", tensorRT, max(b.tolerance, 3e-3)}, precision{"TensorRT FP16", half, 1e-2})
	} else {
		b.add(line{Name: b.name + ": TensorRT not measured, its libraries are missing"})
	}
	for _, p := range list {
		first, err := b.precise(ctx, p, "load", cpu)
		if err != nil {
			return err
		}
		if p.by.Name != "tensorrt" {
			continue
		}
		again, err := b.precise(ctx, p, "load again", cpu)
		if err != nil {
			return err
		}
		b.add(line{Name: b.name + ", " + p.name + ": load to load again", Value: first / again, Unit: "ratio", Gate: 2})
	}
	return nil
}

// precise loads in a precision, compares with the CPU and measures. It returns how long the load took, in seconds.
func (b *bench) precise(ctx context.Context, p precision, what string, cpu edgewise.Instance) (took float64, err error) {
	start := time.Now()
	i, err := b.load(ctx, edgewise.Device{Kind: edgewise.GPU}, p.name, p.by)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	took = time.Since(start).Seconds()
	b.add(line{Name: b.name + ", " + p.name + ": " + what, Value: took, Unit: "s"})
	if err := b.compare(ctx, p.name, 1, p.tolerance, cpu, i); err != nil {
		return 0, err
	}
	return took, b.loop(ctx, p.name, 32, i, true)
}

func (b *bench) load(
	ctx context.Context, on edgewise.Device, way string, by ...edgewise.Accelerator,
) (edgewise.Instance, error) {
	parameters := map[string]edgewise.ModelParam{}
	switch way {
	case plain:
		parameters["gpu_batch_buckets"] = edgewise.ModelParam{StringValue: "off"}
	case alone:
		parameters["gpu_pipeline_slots"] = edgewise.ModelParam{StringValue: "1"}
	}
	return b.backend.Load(ctx, &edgewise.Version{
		ID: edgewise.ModelID{Name: "subject", Version: 1},
		Model: &edgewise.Model{
			Name: "subject", Platform: onnx.Platform, MaxBatchSize: int32(b.most), Parameters: parameters,
			Optimization: &edgewise.Optimization{ExecutionAccelerators: &edgewise.ExecutionAccelerators{GPU: by}},
		},
	}, b.dir, on)
}

// batches are the sizes that are measured.
func (b *bench) batches(way string) []int {
	if way == alone {
		return []int{32}
	}
	return slices.Compact([]int{1, 8, 32, b.most})
}

func (b *bench) way(ctx context.Context, way string, cpu edgewise.Instance) (err error) {
	start := time.Now()
	i, err := b.load(ctx, edgewise.Device{Kind: edgewise.GPU}, way)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	b.add(line{Name: b.name + ", " + way + ": load and warm-up", Value: time.Since(start).Seconds(), Unit: "s"})
	for _, rows := range b.batches(way) {
		if rows <= 8 { // the CPU is slow
			if err := b.compare(ctx, way, rows, b.tolerance, cpu, i); err != nil {
				return err
			}
		}
		if err := b.loop(ctx, way, rows, i, true); err != nil {
			return err
		}
	}
	if way == ring {
		return b.loop(ctx, way, 32, i, false)
	}
	return nil
}

// judge adds what the speeds say together.
func (b *bench) judge() {
	b.add(line{Name: b.name + ": batches of 32 to batches of 1", Value: b.speed["ring32"] / b.speed["ring1"], Unit: "ratio", Gate: b.gain})
	b.add(line{Name: b.name + ": ring to plain, batches of 32", Value: b.speed["ring32"] / b.speed["plain32"], Unit: "ratio", Gate: 0.98})
	b.add(line{
		Name:  b.name + ": pinned to other memory, batches of 32",
		Value: b.speed["ring32"] / b.speed["ring32 other"], Unit: "ratio", Gate: 0.98,
	})
	share := b.copyShare()
	overlap := line{
		Name:  fmt.Sprintf("%s: overlap, copies being %.0f %%", b.name, 100*share),
		Value: b.speed["ring32"] / b.speed["alone32"], Unit: "ratio",
	}
	if share >= 0.15 {
		overlap.Gate = 1.15
	}
	b.add(overlap)
	b.raw[b.name] = max(b.speed["ring32"], b.speed[fmt.Sprint("ring", b.most)])
}

// copyShare is what part of a batch of 32 is copying, when nothing overlaps: by the speed of copies of 1 MiB and more.
func (b *bench) copyShare() float64 {
	n, _ := b.row.Elements()
	out := int64(0)
	if b.name == "copies" {
		out = n * b.result.Size() // the other outputs are small
	}
	seconds := 32 * (float64(b.bytes())/b.copied["in"] + float64(out)/b.copied["out"]) / 1e9
	return seconds / (32 / b.speed["alone32"])
}

func (b *bench) compare(
	ctx context.Context, way string, rows int, tolerance float64, cpu, gpu edgewise.Instance,
) error {
	in := []edgewise.Tensor{b.input(rows, 1)}
	_, output := b.names()
	want, err := cpu.Run(ctx, in, []string{output}, edgewise.RunOptions{})
	if err != nil {
		return err
	}
	defer want.Free()
	got, err := gpu.Run(ctx, in, []string{output}, edgewise.RunOptions{})
	if err != nil {
		return err
	}
	defer got.Free()
	l := line{
		Name:  fmt.Sprintf("%s, %s, batch %d: difference to the CPU", b.name, way, rows),
		Value: b.distance(got.Outputs[0].Data, want.Outputs[0].Data), Unit: "rel. L2",
	}
	if !(l.Value <= tolerance) && !b.Fake {
		l.Failed = fmt.Sprintf("more than %g", tolerance)
	}
	if math.IsNaN(l.Value) || math.IsInf(l.Value, 0) {
		l.Value = -1 // JSON has no such numbers
	}
	b.add(l)
	return nil
}

// loop keeps the device busy with batches, as many at a time as the box would have: out of pinned memory, or of other
// memory.
func (b *bench) loop(ctx context.Context, way string, rows int, i edgewise.Instance, pinned bool) error {
	const clients = 3 // one more than there are slots
	var done atomic.Int64
	errs := make([]error, clients)
	start := time.Now()
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() { errs[c] = b.hammer(ctx, rows, i, pinned, start.Add(b.each), &done) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	key, from := fmt.Sprint(way, rows), ""
	if !pinned {
		key, from = key+" other", ", from other memory"
	}
	b.speed[key] = float64(done.Load()) / time.Since(start).Seconds()
	b.add(line{Name: fmt.Sprintf("%s, %s, batch %d%s", b.name, way, rows, from), Value: b.speed[key], Unit: "rows/s"})
	return nil
}

func (b *bench) hammer(ctx context.Context, rows int, i edgewise.Instance, pinned bool, until time.Time, done *atomic.Int64) error {
	in := b.input(rows, 2)
	_, output := b.names()
	if a, ok := i.(interface {
		Pin(memory []byte) (unpin func(), err error)
	}); ok && pinned {
		data, err := unix.Mmap(-1, 0, len(in.Data), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Munmap(data) }()
		unpin, err := a.Pin(data)
		if err != nil {
			return err
		}
		defer unpin()
		copy(data, in.Data)
		in.Data = data
	}
	for first := true; first || time.Now().Before(until); first = false {
		result, err := i.Run(ctx, []edgewise.Tensor{in}, []string{output}, edgewise.RunOptions{})
		if err != nil {
			return err
		}
		result.Free()
		done.Add(int64(rows))
	}
	return nil
}

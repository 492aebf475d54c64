package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/runner"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/test/isolation/faulty"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

const childVerb = "isolation-child"

// TestMain lets the test binary be its own child.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childVerb {
		os.Exit(runner.Serve(func(s runner.Start) (edgewise.Backend, error) {
			var library string
			err := json.Unmarshal(s.Options, &library)
			return backend(library), err
		}))
	}
	if len(os.Args) == 2 && os.Args[1] == serving.ChildVerb {
		os.Exit(runner.Serve(faulty.New))
	}
	if len(os.Args) == 3 && os.Args[1] == serving.CheckVerb {
		os.Exit(serving.CheckRuntime(os.Args[2], os.Stdout))
	}
	os.Exit(m.Run())
}

func backend(library string) *onnx.Backend {
	return onnx.New(onnx.Config{Library: library, Logger: slog.New(slog.DiscardHandler)})
}

// backends returns the ONNX backend in this process and in children.
func backends(t testing.TB) (inside edgewise.Backend, outside *runner.Backend) {
	library := real.Library(t)
	inside = backend(library)
	return inside, runner.New(runner.Config{
		Backend: inside, Arguments: []string{childVerb}, Options: library, Environment: []string{"ORT_DISABLE_TELEMETRY=1"},
		ReadPaths: []string{library}, Logger: slog.New(slog.DiscardHandler), Grace: time.Minute, // the runtime is slow where the machine is
	})
}

func load(t testing.TB, b edgewise.Backend, dir string) edgewise.Instance {
	t.Helper()
	v := &edgewise.Version{
		ID:    edgewise.ModelID{Name: "m", Version: 1},
		Model: &edgewise.Model{Name: "m", Platform: onnx.Platform},
	}
	i, err := b.Load(context.Background(), v, dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// both loads a model in this process and in a child.
func both(t testing.TB, m *onnxgen.Model) (inside, outside edgewise.Instance, inspection *edgewise.Inspection) {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	here, there := backends(t)
	inspection, err := there.Inspect(context.Background(), dir, &edgewise.Model{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	inside, outside = load(t, here, dir), load(t, there, dir)
	t.Cleanup(func() {
		if err := inside.Close(); err != nil {
			t.Error(err)
		}
		if err := outside.Close(); err != nil {
			t.Error(err)
		}
	})
	return inside, outside, inspection
}

// sample makes inputs and the list of outputs of a model: 1 for every size that is open.
func sample(inspection *edgewise.Inspection) (in []edgewise.Tensor, want []string) {
	for _, info := range inspection.Inputs {
		shape := slices.Clone(info.Shape)
		for d := range shape {
			if shape[d] < 0 {
				shape[d] = 1
			}
		}
		n, _ := shape.Elements()
		t := edgewise.Tensor{Name: info.Name, Type: info.Type, Shape: shape, Data: make([]byte, n*info.Type.Size())}
		for i := range t.Data {
			t.Data[i] = byte(i%2) << 5 // small positive numbers in every type
		}
		if info.Type == edgewise.Bytes {
			for e := range n {
				t.Data = edgewise.AppendElement(t.Data, "element "+strconv.FormatInt(e, 10))
			}
		}
		in = append(in, t)
	}
	for _, info := range inspection.Outputs {
		want = append(want, info.Name)
	}
	return in, want
}

func TestAChildAnswersAsThisProcessDoes(t *testing.T) {
	models := map[string]*onnxgen.Model{
		"add and subtract": onnxgen.AddSub(),
		"perceptron":       onnxgen.MLP(1),
		"MobileNetV2":      onnxgen.MobileNetV2(1),
		"scalar":           onnxgen.Scalar(),
		"strings":          onnxgen.Identity(edgewise.Bytes, onnxgen.Batch(3)...),
		"halves":           onnxgen.Identity(edgewise.FP16, onnxgen.Batch(3)...),
		"external data":    onnxgen.External(),
	}
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			inside, outside, inspection := both(t, m)
			in, names := sample(inspection)
			want, err := inside.Run(t.Context(), in, names, edgewise.RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer want.Free()
			got, err := outside.Run(t.Context(), in, names, edgewise.RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer got.Free()
			for i, out := range got.Outputs {
				w := want.Outputs[i]
				if out.Name != w.Name || out.Type != w.Type || !out.Shape.Equal(w.Shape) || !bytes.Equal(out.Data, w.Data) {
					t.Errorf("output %q %v%v differs from %v%v", out.Name, out.Type, out.Shape, w.Type, w.Shape)
				}
			}
		})
	}
}

func TestARunInAChildEndsWithItsContext(t *testing.T) {
	_, outside, inspection := both(t, onnxgen.Slow(200))
	in, names := sample(inspection)
	pid := outside.(*runner.Instance).Stats().PID
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := outside.Run(ctx, in, names, edgewise.RunOptions{}); err == nil ||
		edgewise.KindOf(err) != edgewise.Deadline {
		t.Errorf("got %v", err)
	}
	if s := outside.(*runner.Instance).Stats(); s.PID != pid || s.Crashes != 0 {
		t.Errorf("ONNX Runtime did not end its run, the child was killed: %+v", s)
	}
}

// TestUnloadingGivesTheMemoryBack loads and unloads a model of 50 MB thirty times.
func TestUnloadingGivesTheMemoryBack(t *testing.T) {
	dir := t.TempDir()
	if err := onnxgen.Weights(50<<20, 1).Save(dir); err != nil {
		t.Fatal(err)
	}
	_, there := backends(t)
	inspection, err := there.Inspect(t.Context(), dir, &edgewise.Model{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	in, names := sample(inspection)
	cycle := func() {
		i := load(t, there, dir)
		r, err := i.Run(t.Context(), in, names, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Free()
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
	cycle()
	before, descriptors := resident(t, os.Getpid()), entries(t, "/proc/self/fd")
	for range 30 {
		cycle()
	}
	if n := entries(t, "/proc/self/fd"); n > descriptors {
		t.Errorf("%d open files, %d before", n, descriptors)
	}
	if list := children(t); len(list) > 0 {
		t.Errorf("children are left: %v", list)
	}
	if after := resident(t, os.Getpid()); after > before+5<<20 {
		t.Errorf("%d MiB resident after thirty loads, %d before", after>>20, before>>20)
	}
}

func entries(t testing.TB, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// children returns the process ids of this process's children.
func children(t testing.TB) []string {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	var all []string
	for _, path := range threads {
		list, _ := os.ReadFile(path) // the thread may have ended
		all = append(all, strings.Fields(string(list))...)
	}
	return all
}

// resident returns the resident bytes of a process.
func resident(t testing.TB, pid int) int64 {
	t.Helper()
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(content))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// block is how many runs of one side follow each other, as they do under load.
const block = 8

// BenchmarkCrossing runs each model in this process, in a child with inputs in shared memory already, as the scheduler
// puts them there, and in a child with inputs elsewhere, in blocks that take turns. It reports medians: of each side;
// of what a run takes beside the time that the runtime itself measured, which does not depend on how fast the model is
// on the core at hand; and as added what the child takes beside it more than this process.
func BenchmarkCrossing(b *testing.B) {
	for name, m := range map[string]*onnxgen.Model{"MLP": onnxgen.MLP(1), "MobileNetV2": onnxgen.MobileNetV2(1)} {
		b.Run(name, func(b *testing.B) {
			inside, outside, inspection := both(b, m)
			in, names := sample(inspection)
			sides := []struct {
				name string
				on   edgewise.Instance
				in   []edgewise.Tensor
			}{{"inside", inside, in}, {"child", outside, place(b, outside, in)}, {"unplaced", outside, in}}
			took, beside := make([][]time.Duration, len(sides)), make([][]time.Duration, len(sides))
			for b.Loop() {
				for i, side := range sides {
					timed(b, side.on, side.in, names) // brings the side's memory back into the caches
					for range block {
						whole, compute := timed(b, side.on, side.in, names)
						took[i], beside[i] = append(took[i], whole), append(beside[i], whole-compute)
					}
				}
			}
			for i, side := range sides {
				b.ReportMetric(median(took[i]), side.name+"-µs")
				b.ReportMetric(median(beside[i]), side.name+"-beside-µs")
			}
			b.ReportMetric(median(beside[1])-median(beside[0]), "added-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// median returns the median in microseconds.
func median(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2]) / float64(time.Microsecond)
}

// BenchmarkThroughput runs the small model from two goroutines, as two lanes do.
func BenchmarkThroughput(b *testing.B) {
	inside, outside, inspection := both(b, onnxgen.AddSub())
	in, names := sample(inspection)
	for name, i := range map[string]edgewise.Instance{"inside": inside, "child": outside} {
		b.Run(name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					timed(b, i, in, names)
				}
			})
		})
	}
}

// timed runs once, with a deadline as every request has one. compute is what the runtime measured.
func timed(b *testing.B, i edgewise.Instance, in []edgewise.Tensor, names []string) (whole, compute time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	r, err := i.Run(ctx, in, names, edgewise.RunOptions{})
	if err != nil {
		b.Error(err)
		return 0, 0
	}
	whole = time.Since(start)
	r.Free()
	return whole, r.Infer
}

// place copies inputs into shared memory.
func place(b *testing.B, i edgewise.Instance, in []edgewise.Tensor) []edgewise.Tensor {
	placed := slices.Clone(in)
	for n := range placed {
		data, free, err := i.(*runner.Instance).Alloc(len(in[n].Data))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(free)
		copy(data, in[n].Data)
		placed[n].Data = data
	}
	return placed
}

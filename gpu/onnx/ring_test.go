package onnx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// late runs a session of ONNX Runtime on the CPU, over the fake device's memory, as a provider would on a stream: when the
// stream has got there.
type late struct {
	*ort.Binding
	compute *cuda.Stream
}

func (l late) Run() error {
	if err := l.compute.Synchronize(); err != nil {
		return err
	}
	return l.Binding.Run()
}

const features, classes = 64, 10

// accelerate loads a dense network on the CPU and puts the ring, with the fake device, in front of it.
func accelerate(t *testing.T, control *fakegpu.Control, buckets []int, slots int) (*accelerated, *ort.Session) {
	t.Helper()
	dir := t.TempDir()
	model := onnxgen.MLP(1)
	if err := model.Save(dir); err != nil {
		t.Fatal(err)
	}
	m := &edgewise.Model{Name: "mlp", Platform: Platform, MaxBatchSize: int32(buckets[len(buckets)-1])}
	backend := New(Config{Library: real.Library(t), Logger: slog.New(slog.DiscardHandler)})
	inspection, err := backend.Inspect(t.Context(), dir, m)
	if err != nil {
		t.Fatal(err)
	}
	lib, err := backend.Library()
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.NewSession(filepath.Join(dir, "model.onnx"), names(inspection.Inputs), names(inspection.Outputs), ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	driver, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
	if err != nil {
		t.Fatal(err)
	}
	device, err := driver.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := device.Retain()
	if err != nil {
		t.Fatal(err)
	}
	in, out, ok := plans(m, inspection, buckets[len(buckets)-1], slots)
	if !ok {
		t.Fatal("the model's sizes are not known")
	}
	r, err := newRing(ringConfig{
		Context: ctx, Inputs: in, Outputs: out, Buckets: buckets, Batched: true, Slots: slots,
		Bind: func(compute *cuda.Stream, inputs, outputs []ort.Bound, _ int) (bound, error) {
			b, err := s.NewBinding(ort.BindingConfig{Inputs: inputs, Outputs: outputs, Memory: ort.HostMemory})
			return late{b, compute}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newAccelerated(edgewise.ModelID{Name: "mlp", Version: 1}, edgewise.Device{Kind: edgewise.GPU}, ctx, []session{s}, []*ring{r}), s
}

func startControl(t *testing.T) *fakegpu.Control {
	t.Helper()
	c := theControl(t)
	c.Reset()
	return c
}

// theControl is the one page of this process: the fake driver is loaded once.
var theControl = func() func(t *testing.T) *fakegpu.Control {
	var once sync.Once
	var c *fakegpu.Control
	return func(t *testing.T) *fakegpu.Control {
		t.Helper()
		once.Do(func() {
			path := os.Getenv("FAKEGPU_CONTROL")
			if path == "" {
				dir, err := os.MkdirTemp("", "edgewise-ring-")
				if err != nil {
					t.Fatal(err)
				}
				path = filepath.Join(dir, "control")
			}
			var err error
			if c, err = fakegpu.Open(path); err != nil {
				t.Fatal(err)
			}
			_ = os.Setenv("FAKEGPU_CONTROL", path)
		})
		return c
	}
}()

// finish closes an instance and looks that nothing is left.
func finish(t *testing.T, c *fakegpu.Control, a *accelerated, pageable, misuse int64) {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for name, w := range map[string]fakegpu.Word{
		"device memory": fakegpu.Allocs, "pinned memory": fakegpu.Host, "streams": fakegpu.Streams, "events": fakegpu.Events, "contexts": fakegpu.Contexts, "registered": fakegpu.Registered,
	} {
		if n := c.Get(w); n != 0 {
			t.Errorf("%d %s left", n, name)
		}
	}
	if n := c.Get(fakegpu.Pageable) - pageable; n != 0 {
		t.Errorf("%d copies of memory that is not pinned", n)
	}
	if n := c.Get(fakegpu.Misuse) - misuse; n != 0 {
		t.Errorf("%d calls that a driver would not survive", n)
	}
}

func rows(n int, seed float32) edgewise.Tensor {
	t := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(n), features}}
	for i := range n * features {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(seed+float32(math.Sin(float64(i)*0.7))))
	}
	return t
}

// expected is what the plain way on the CPU makes of a batch.
func expected(t *testing.T, s *ort.Session, in edgewise.Tensor) []byte {
	t.Helper()
	r, err := s.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	return append([]byte(nil), r.Outputs[0].Data...)
}

func outputName(*ort.Session) string { return onnxgen.MLP(1).Graph.Outputs[0].Name }

func inputName() string { return onnxgen.MLP(1).Graph.Inputs[0].Name }

func near(t *testing.T, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
		return
	}
	for i := 0; i < len(want); i += 4 {
		a, b := math.Float32frombits(binary.LittleEndian.Uint32(got[i:])), math.Float32frombits(binary.LittleEndian.Uint32(want[i:]))
		if !(math.Abs(float64(a-b)) <= 1e-5) {
			t.Errorf("element %d: %v, want %v", i/4, a, b)
			return
		}
	}
}

// TestRingComputesWhatThePlainWayDoes sends batches of every size, from several sides at a time, out of memory of each kind.
func TestRingComputesWhatThePlainWayDoes(t *testing.T) {
	for _, integrated := range []int64{0, 1} {
		t.Run(fmt.Sprintf("integrated %d", integrated), func(t *testing.T) {
			c := startControl(t)
			c.Set(fakegpu.IsIntegrated, integrated)
			c.Set(fakegpu.Bandwidth, 64<<20)
			pageable, misuse := c.Get(fakegpu.Pageable), c.Get(fakegpu.Misuse)
			a, s := accelerate(t, c, []int{1, 2, 4, 8}, 3)
			var clients sync.WaitGroup
			for client := range 6 {
				clients.Go(func() {
					for n := 1; n <= 8; n++ {
						in := rows(n, float32(client*10+n))
						in.Name = inputName()
						want := expected(t, s, in)
						if client%2 == 0 { // in pinned memory
							data, free, err := a.Alloc(len(in.Data))
							if err != nil {
								t.Error(err)
								return
							}
							copy(data, in.Data)
							in.Data = data
							defer free()
						}
						r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)})
						if err != nil {
							t.Error(err)
							return
						}
						if r.Outputs[0].Shape[0] != int64(n) {
							t.Errorf("%v for %d rows", r.Outputs[0].Shape, n)
						}
						near(t, r.Outputs[0].Data, want)
						r.Free()
					}
				})
			}
			clients.Wait()
			finish(t, c, a, pageable, misuse)
		})
	}
}

// TestOutputsGoToPinnedMemoryByThemselves gives memory shared with another process, as the house does.
func TestOutputsGoToPinnedMemoryByThemselves(t *testing.T) {
	c := startControl(t)
	pageable, misuse := c.Get(fakegpu.Pageable), c.Get(fakegpu.Misuse)
	a, s := accelerate(t, c, []int{4}, 2)
	block, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	unpin, err := a.Pin(block)
	if err != nil {
		t.Fatal(err)
	}
	in := rows(3, 1)
	in.Name = inputName()
	want := expected(t, s, in)
	n := copy(block, in.Data)
	in.Data = block[:n]
	for name, place := range map[string]func([]int64) [][]byte{
		"pinned": func(sizes []int64) [][]byte { return [][]byte{block[4096 : 4096+sizes[0]]} },
		"other":  func(sizes []int64) [][]byte { return [][]byte{make([]byte, sizes[0])} },
		"none":   func([]int64) [][]byte { return nil },
		"nil":    func([]int64) [][]byte { return [][]byte{nil} },
	} {
		r, err := a.RunInto(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)}, place)
		if err != nil {
			t.Fatal(err)
		}
		near(t, r.Outputs[0].Data, want)
		if name == "pinned" && &r.Outputs[0].Data[0] != &block[4096] {
			t.Error("the output is not in the memory that was given for it")
		}
		r.Free()
	}
	unpin()
	if err := unix.Munmap(block); err != nil {
		t.Fatal(err)
	}
	finish(t, c, a, pageable, misuse)
}

// launched is a run that is a kernel on the compute stream.
type launched struct {
	kernel  *cuda.Function
	compute *cuda.Stream
	in, out uintptr
	n       int
}

func (l launched) Run() error {
	one := cuda.Dim3{X: 1, Y: 1, Z: 1}
	return l.kernel.Launch(one, one, 0, l.compute, uint64(l.in), uint64(l.out), uint64(l.n), uint64(math.Float32bits(2)))
}

func (launched) Close() {}

const scalePTX = ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry scale(\n.param .u64 a\n)\n{\nret;\n}\n"

// TestCopiesOverlapRuns proves the pipeline: with 20 ms for each copy and each run, batches through three slots take much less
// time than through one, and every one of them has its own answer.
func TestCopiesOverlapRuns(t *testing.T) {
	c := startControl(t)
	const n, each, batches = 1 << 16, 20 * time.Millisecond, 8
	took := map[int]time.Duration{}
	for _, slots := range []int{1, 3} {
		a := kernelRing(t, n, slots)
		c.Set(fakegpu.Bandwidth, int64(4*n*time.Second/each))
		c.Set(fakegpu.KernelNS, int64(each))
		start := time.Now()
		var clients sync.WaitGroup
		for client := range batches {
			clients.Go(func() { double(t, a, n, float32(client+1)) })
		}
		clients.Wait()
		took[slots] = time.Since(start)
		c.Reset()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if gain := took[1].Seconds() / took[3].Seconds(); gain < 1.5 {
		t.Errorf("%d batches took %v with one slot and %v with three: a gain of %.2f", batches, took[1], took[3], gain)
	}
}

// kernelRing makes an instance that doubles n numbers.
func kernelRing(t *testing.T, n, slots int) *accelerated {
	t.Helper()
	driver, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
	if err != nil {
		t.Fatal(err)
	}
	device, err := driver.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := device.Retain()
	if err != nil {
		t.Fatal(err)
	}
	module, err := ctx.LoadData(scalePTX)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = module.Close() })
	kernel, err := module.Function("scale")
	if err != nil {
		t.Fatal(err)
	}
	p := func(name string) []plan {
		return []plan{{name, edgewise.FP32, edgewise.Shape{int64(n)}, 4 * int64(n)}}
	}
	r, err := newRing(ringConfig{
		Context: ctx, Inputs: p("x"), Outputs: p("y"), Buckets: []int{1}, Batched: true, Slots: slots,
		Bind: func(compute *cuda.Stream, inputs, outputs []ort.Bound, _ int) (bound, error) {
			return launched{kernel, compute, inputs[0].Address, outputs[0].Address, n}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return newAccelerated(edgewise.ModelID{Name: "double", Version: 1}, edgewise.Device{Kind: edgewise.GPU}, ctx, nil, []*ring{r})
}

// double runs one batch and looks at its answer.
func double(t *testing.T, a *accelerated, n int, v float32) {
	data, free, err := a.Alloc(4 * n)
	if err != nil {
		t.Error(err)
		return
	}
	defer free()
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, int64(n)}, Data: data}
	r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{"y"})
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Free()
	for i := range n {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(r.Outputs[0].Data[4*i:])); got != 2*v {
			t.Errorf("element %d: %v, want %v", i, got, 2*v)
			return
		}
	}
}

// TestEveryFaultIsOneFailedBatch makes each call of the driver fail at a random place in the life of a ring. The batch that meets
// it fails; every other one is right, nothing is lost and nothing hangs.
func TestEveryFaultIsOneFailedBatch(t *testing.T) {
	c := startControl(t)
	misuse, pageable := c.Get(fakegpu.Misuse), c.Get(fakegpu.Pageable)
	a, s := accelerate(t, c, []int{1, 2, 4}, 2)
	symbols := []string{"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent", "cuEventSynchronize", "cuStreamSynchronize"}
	rapid.Check(t, func(r *rapid.T) {
		c.Fail(rapid.SampledFrom(symbols).Draw(r, "symbol"), rapid.IntRange(1, 4).Draw(r, "call"), int32(cuda.LaunchOutOfResources), false)
		failed := 0
		for range 4 {
			in := rows(rapid.IntRange(1, 4).Draw(r, "rows"), 1)
			in.Name = inputName()
			result, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)})
			var code cuda.Result
			switch {
			case err == nil:
				near(t, result.Outputs[0].Data, expected(t, s, in))
				result.Free()
			case !errors.As(err, &code) || code != cuda.LaunchOutOfResources || edgewise.DeviceLost(err):
				r.Fatalf("got %v", err)
			default:
				failed++
			}
		}
		if failed > 1 {
			r.Fatalf("%d batches failed of one fault", failed)
		}
	})
	c.Reset()
	finish(t, c, a, pageable, misuse)
}

// TestLoadWithoutMemoryLeavesNothing lets the device run out of memory at every step of making a ring.
func TestLoadWithoutMemoryLeavesNothing(t *testing.T) {
	c := startControl(t)
	driver, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
	if err != nil {
		t.Fatal(err)
	}
	device, err := driver.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := device.Retain()
	if err != nil {
		t.Fatal(err)
	}
	p := []plan{{"x", edgewise.FP32, edgewise.Shape{4}, 16}}
	for _, symbol := range []string{"cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate"} {
		for n := 1; n <= 3; n++ {
			c.Fail(symbol, n, int32(cuda.OutOfMemory), false)
			_, err := newRing(ringConfig{Context: ctx, Inputs: p, Outputs: p, Buckets: []int{1}, Batched: true, Slots: 2, Bind: func(*cuda.Stream, []ort.Bound, []ort.Bound, int) (bound, error) {
				return nothing{}, nil
			}})
			if edgewise.KindOf(err) != edgewise.Exhausted && edgewise.KindOf(errors.Unwrap(err)) != edgewise.Internal {
				t.Errorf("%s %d: %v", symbol, n, err)
			}
			var r cuda.Result
			if !errors.As(err, &r) || r != cuda.OutOfMemory {
				t.Errorf("%s %d: %v", symbol, n, err)
			}
		}
	}
	c.Reset()
	for _, w := range []fakegpu.Word{fakegpu.Allocs, fakegpu.Host, fakegpu.Streams, fakegpu.Events} {
		if n := c.Get(w); n != 0 {
			t.Errorf("word %d: %d left", w, n)
		}
	}
	if err := ctx.Close(); err != nil {
		t.Error(err)
	}
}

type nothing struct{}

func (nothing) Run() error { return nil }
func (nothing) Close()     {}

// TestLostDeviceIsSaid runs in a process of its own: the fake device is lost for its process.
func TestLostDeviceIsSaid(t *testing.T) {
	if os.Getenv("EDGEWISE_LOSE_DEVICE") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestLostDeviceIsSaid$")
		cmd.Env = append(os.Environ(), "EDGEWISE_LOSE_DEVICE=1", "FAKEGPU_CONTROL="+t.TempDir()+"/control")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	c := startControl(t)
	a, s := accelerate(t, c, []int{4}, 2)
	c.Fail("cuEventSynchronize", 1, int32(cuda.IllegalAddress), true)
	in := rows(2, 1)
	in.Name = inputName()
	for range 2 {
		_, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)})
		if !edgewise.DeviceLost(err) || edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), "gpu:0 has stopped working") {
			t.Errorf("got %v", err)
		}
	}
}

func TestBatchesThatDoNotFitTakeThePlainWay(t *testing.T) {
	c := startControl(t)
	misuse, pageable := c.Get(fakegpu.Misuse), c.Get(fakegpu.Pageable)
	a, s := accelerate(t, c, []int{1, 2}, 2)
	before := c.Get(fakegpu.Copies)
	in := rows(5, 1)
	in.Name = inputName()
	r, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{outputName(s)})
	if err != nil {
		t.Fatal(err)
	}
	near(t, r.Outputs[0].Data, expected(t, s, in))
	r.Free()
	if n := c.Get(fakegpu.Copies) - before; n != 0 {
		t.Errorf("%d copies by the ring", n)
	}
	if _, err := a.Run(context.Background(), []edgewise.Tensor{in}, []string{"nothing"}); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("an output that there is not: %v", err)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, err := a.Run(stopped, []edgewise.Tensor{rows(1, 1)}, []string{outputName(s)}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has gone: %v", err)
	}
	finish(t, c, a, pageable, misuse)
}

func TestBuckets(t *testing.T) {
	with := func(most int32, parameter string, preferred ...int32) *edgewise.Model {
		return &edgewise.Model{Name: "m", MaxBatchSize: most, DynamicBatching: &edgewise.DynamicBatching{PreferredBatchSize: preferred}, Parameters: map[string]edgewise.ModelParam{edgewise.BucketsParameter: {StringValue: parameter}}}
	}
	many := make([]string, MaxBuckets+1)
	for i := range many {
		many[i] = fmt.Sprint(i + 1)
	}
	for _, test := range []struct {
		name  string
		model *edgewise.Model
		want  string
	}{
		{"powers of two", with(20, ""), "[1 2 4 8 16 20]"},
		{"preferred sizes", with(16, "", 6, 12), "[1 2 4 6 8 12 16]"},
		{"chosen", with(16, "4, 8"), "[4 8 16]"},
		{"off", with(16, "off"), "[]"},
		{"not batched", with(0, ""), "[1]"},
		{"too large", with(16, "32"), "no batch size from 1 to max_batch_size 16"},
		{"no number", with(16, "x"), "no batch size"},
		{"too many", with(64, strings.Join(many, ",")), "at most 32 are allowed"},
	} {
		list, err := buckets(test.model)
		if got := fmt.Sprint(list); err == nil && got != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v", test.name, list, err)
		}
	}
}

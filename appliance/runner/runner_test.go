package runner

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

func floats(name string, n int64) edgewise.Tensor {
	data := make([]byte, 4*n)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	return edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: edgewise.Shape{n}, Data: data}
}

// echo runs tensors through the child and reports what comes back differently.
func echo(i *Instance, in ...edgewise.Tensor) error { return echoWith(edgewise.RunOptions{}, i, in...) }

func echoWith(options edgewise.RunOptions, i *Instance, in ...edgewise.Tensor) error {
	want := make([]string, len(in))
	for n := range in {
		want[n] = in[n].Name
	}
	r, err := i.Run(context.Background(), in, want, options)
	if err != nil {
		return err
	}
	defer r.Free()
	for n, out := range r.Outputs {
		if out.Name != in[n].Name || out.Type != in[n].Type || !out.Shape.Equal(in[n].Shape) ||
			!bytes.Equal(out.Data, in[n].Data) {
			return fmt.Errorf("output %q %v%v of %d bytes differs from its input", out.Name, out.Type, out.Shape, len(out.Data))
		}
	}
	return nil
}

// fails runs a wanted output and returns the error, which must be of a kind.
func fails(t *testing.T, i *Instance, want string, kind edgewise.Kind) error {
	t.Helper()
	r, err := i.Run(t.Context(), nil, []string{want}, edgewise.RunOptions{})
	if err == nil {
		r.Free()
		t.Fatalf("a run that wants %q succeeded", want)
	}
	if edgewise.KindOf(err) != kind {
		t.Fatalf("kind %v of %v, want %v", edgewise.KindOf(err), err, kind)
	}
	return err
}

// eventually waits until ok, within a bound that a test never needs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func TestTensorsOfEveryTypeAndShapeCrossUnchanged(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	var all []edgewise.Tensor
	for _, kind := range edgewise.DataTypes() {
		for n, shape := range []edgewise.Shape{{}, {0}, {1}, {3, 5}, {2, 0, 7}, {1, 1, 1, 17}} {
			count, _ := shape.Elements()
			data := bytes.Repeat([]byte{byte(kind)}, int(count*kind.Size()))
			if kind == edgewise.Bytes {
				data = nil
				for e := range count {
					data = edgewise.AppendElement(data, strings.Repeat("\x00ü", int(e)))
				}
			}
			all = append(all, edgewise.Tensor{Name: fmt.Sprint(kind, n), Type: kind, Shape: shape, Data: data})
		}
	}
	for _, one := range all {
		if err := echo(i, one); err != nil {
			t.Error(err)
		}
	}
	if err := echo(i, all...); err != nil {
		t.Error(err)
	}
}

func TestBigTensorsCross(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	if err := echo(i, floats("a", 16<<20)); err != nil {
		t.Error(err)
	}
	r, err := i.Run(t.Context(), nil, []string{"huge"}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	if data := r.Outputs[0].Data; len(data) != 48<<20 || data[len(data)-1] != 7 {
		t.Errorf("%d bytes", len(data))
	}
}

func TestWhetherARunIsAloneAndWasWideCrosses(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	for _, alone := range []bool{true, false} {
		r, err := i.Run(t.Context(), nil, []string{"done"}, edgewise.RunOptions{Solo: alone})
		if err != nil {
			t.Fatal(err)
		}
		if r.Free(); r.Wide != alone {
			t.Errorf("alone %v: the instance was told %v", alone, r.Wide)
		}
	}
}

func TestManyRunsInFlightEachGetTheirOwnAnswer(t *testing.T) {
	c := setUp(fakeOptions{})
	c.MaxRuns = 8
	i := load(t, c, t.TempDir())
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for n := range 30 {
				if err := echo(i, floats("a", int64(n*100)), floats("b", 9)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if s := i.Stats(); s.Runs != 32*30 || s.Crashes != 0 {
		t.Errorf("%+v", s)
	}
}

func TestInputsAreCopiedOnceAndOutputsReadInPlace(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	for range 10 {
		if err := echo(i, floats("a", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if s := i.Stats(); s.CopiedIn != 40000 || s.CopiedOut != 0 || s.ChildOut != 0 {
		t.Errorf("%+v", s)
	}
}

func TestOutputsThatTheInstanceDoesNotPlaceAreCopiedOnce(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	data, free, err := i.Alloc(8000)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	a, b := floats("a", 1000), floats("b", 1000)
	a.Data, b.Data = append(data[:0], a.Data...), append(data[4000:4000], b.Data...)
	for range 10 {
		if err := echo(i, a, b); err != nil {
			t.Fatal(err)
		}
	}
	if s := i.Stats(); s.CopiedIn != 0 || s.CopiedOut != 0 || s.ChildOut != 40000 {
		t.Errorf("%+v", s)
	}
}

func TestPlacedOutputsMakeTheBlockLonger(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	const n = 1 << 20
	data, free, err := i.Alloc(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	a, b := floats("a", n), floats("b", 50_000)
	a.Data = append(data[:0], a.Data...)
	for range 3 { // b stands in the block whose mapping in the child is replaced while a is made in it
		if err := echo(i, a, b); err != nil {
			t.Fatal(err)
		}
	}
	if s := i.Stats(); s.CopiedIn != 3*200_000 || s.ChildOut != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAChildWithoutRoomForALongerBlockGoesOn(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	const n = 16 << 20
	data, free, err := i.Alloc(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	in := []edgewise.Tensor{{Name: "a", Type: edgewise.FP32, Shape: edgewise.Shape{n}, Data: data}, floats("b", 1000)}
	if r, err := i.Run(t.Context(), in, []string{"b"}, edgewise.RunOptions{}); err != nil { // the child maps data
		t.Fatal(err)
	} else {
		r.Free()
	}
	pid := i.Stats().PID
	allow := addressSpaceOf(t, pid, 16<<20)
	for range 2 {
		if _, err := i.Run(t.Context(), in, []string{"a"},
			edgewise.RunOptions{}); edgewise.KindOf(err) != edgewise.Exhausted {
			t.Fatalf("an output that the child cannot map: %v", err)
		}
		if err := echo(i, in[1]); err != nil {
			t.Fatalf("a short run after it: %v", err)
		}
	}
	allow()
	if err := echo(i, in...); err != nil {
		t.Error(err)
	}
	if now := i.Stats().PID; now != pid {
		t.Errorf("process %d was replaced by %d", pid, now)
	}
}

// addressSpaceOf leaves a process so many more bytes of address space, until allow is called.
func addressSpaceOf(t *testing.T, pid int, more uint64) (allow func()) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	set := func(cur uint64) {
		if err := unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: cur, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(pages*uint64(os.Getpagesize()) + more)
	return func() { set(unix.RLIM_INFINITY) }
}

func TestInputsInAllocatedMemoryAreNotCopied(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	data, free, err := i.Alloc(8000)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	whole := floats("a", 2000)
	copy(data, whole.Data)
	half := edgewise.Tensor{Name: "b", Type: edgewise.FP32, Shape: edgewise.Shape{1000}, Data: data[4000:]}
	whole.Data = data
	var group sync.WaitGroup
	for range 4 { // runs on several channels share the memory
		group.Go(func() {
			if err := echo(i, whole, half); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if s := i.Stats(); s.CopiedIn != 0 {
		t.Errorf("%+v", s)
	}
}

func TestErrorsOfTheBackendKeepTheirKindAndText(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	if err := fails(t, i, "invalid", edgewise.Invalid); err.Error() != "input out of range" {
		t.Error(err)
	}
	if err := echo(i, floats("a", 1)); err != nil {
		t.Errorf("the child does not go on after an error: %v", err)
	}
}

func TestSharedMemoryIsBounded(t *testing.T) {
	c := setUp(fakeOptions{})
	c.MaxArena = 1 << 20
	i := load(t, c, t.TempDir())
	_, err := i.Run(t.Context(), []edgewise.Tensor{floats("a", 1<<19)}, []string{"a"}, edgewise.RunOptions{})
	if err == nil || edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("inputs beyond the bound: %v", err)
	}
	fails(t, i, "huge", edgewise.Exhausted)
	var held []*edgewise.Result
	for {
		r, err := i.Run(t.Context(), []edgewise.Tensor{floats("a", 1<<14)}, []string{"a"}, edgewise.RunOptions{})
		if err != nil {
			if edgewise.KindOf(err) != edgewise.Exhausted || len(held) < 4 {
				t.Errorf("after %d results: %v", len(held), err)
			}
			break
		}
		held = append(held, r)
	}
	for _, r := range held {
		r.Free()
	}
	if err := echo(i, floats("a", 1<<16)); err != nil {
		t.Errorf("after the results were freed: %v", err)
	}
	if size := i.arena.size; size > c.MaxArena {
		t.Errorf("%d bytes of blocks", size)
	}
}

func TestRunsThatNoFrameHoldsAreRefused(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	tests := map[string]edgewise.Tensor{
		"a long name":     {Name: strings.Repeat("n", maxFrame), Type: edgewise.Uint8, Shape: edgewise.Shape{0}},
		"many dimensions": {Name: "a", Type: edgewise.Uint8, Shape: make(edgewise.Shape, 300)},
	}
	for name, in := range tests {
		if _, err := i.Run(t.Context(), []edgewise.Tensor{in}, nil, edgewise.RunOptions{}); err == nil ||
			edgewise.KindOf(err) != edgewise.TooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := i.Run(t.Context(), nil, make([]string, maxTensors+1), edgewise.RunOptions{}); err == nil ||
		edgewise.KindOf(err) != edgewise.TooLarge {
		t.Errorf("many outputs: %v", err)
	}
}

func TestTheChildMayDoNothingButItsModel(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	for _, attempt := range []string{
		"read", "parent's memory", "write", "connect", "kill the parent", "run a program",
		"socket",
	} {
		r, err := i.Run(t.Context(), nil, []string{attempt}, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Outputs[0].Data[4:]); !strings.Contains(got, "permission denied") &&
			!strings.Contains(got, "not permitted") {
			t.Errorf("%s: %s", attempt, got)
		}
		r.Free()
	}
}

func TestClosingWhileRunsAreInFlightEndsThem(t *testing.T) {
	c := setUp(fakeOptions{})
	instance, err := New(c).Load(t.Context(), version(), t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	i := instance.(*Instance)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := i.Run(context.Background(), nil, []string{"stuck"}, edgewise.RunOptions{}); err == nil ||
				edgewise.KindOf(err) != edgewise.Unavailable {
				t.Errorf("got %v", err)
			}
		})
	}
	eventually(t, "four runs in flight", func() bool { return i.inFlight() == 4 })
	if err := i.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	fails(t, i, "invalid", edgewise.Unavailable)
}

func TestLoadingAndClosingLeavesNothingBehind(t *testing.T) {
	cycle := func() {
		i, err := New(setUp(fakeOptions{})).Load(t.Context(), version(), t.TempDir(), edgewise.Device{})
		if err != nil {
			t.Fatal(err)
		}
		if err := echo(i.(*Instance), floats("a", 100)); err != nil {
			t.Error(err)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
	cycle()
	descriptors, goroutines, mapped := openFiles(t), runtime.NumGoroutine(), sharedMappings(t)
	for range 100 {
		cycle()
	}
	eventually(t, "the end of every goroutine", func() bool { return runtime.NumGoroutine() <= goroutines })
	if after := openFiles(t); after > descriptors {
		t.Errorf("%d open files, %d before", after, descriptors)
	}
	if after := sharedMappings(t); after > mapped {
		t.Errorf("%d pieces of shared memory are mapped, %d before", after, mapped)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestTheChildKeepsItsLimits(t *testing.T) {
	c := setUp(fakeOptions{})
	c.AddressSpace = 4 << 30
	c.Environment = []string{"ONLY=this"}
	i := load(t, c, t.TempDir())
	for attempt, want := range map[string]string{
		"open many files": "too many open files", "much address space": "cannot allocate memory",
		"dump core": "at most 0 bytes", "environment": "ONLY=this",
	} {
		r, err := i.Run(t.Context(), nil, []string{attempt}, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Outputs[0].Data[4:]); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", attempt, got)
		}
		r.Free()
	}
}

func TestWhatAChildWritesIsLoggedWithinBounds(t *testing.T) {
	var text bytes.Buffer
	line := log(slog.New(slog.NewTextHandler(&text, nil)))
	for range maxLogLines + 50 {
		line(1, []byte("x"))
	}
	if n := strings.Count(text.String(), "\n"); n != maxLogLines {
		t.Errorf("%d lines", n)
	}
}

func TestAChildEndsWithItsSocket(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	p, err := i.alive()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = i.Run(context.Background(), nil, []string{"stuck"}, edgewise.RunOptions{}) }()
	eventually(t, "a run in flight", func() bool { return i.inFlight() == 1 })
	if err := unix.Shutdown(p.control, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	<-p.Dead()
	if p.Cause() != "exit status 0" {
		t.Errorf("cause %q", p.Cause())
	}
}

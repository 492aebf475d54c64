package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
func echo(i *Instance, in ...edgewise.Tensor) error {
	want := make([]string, len(in))
	for n := range in {
		want[n] = in[n].Name
	}
	r, err := i.Run(context.Background(), in, want)
	if err != nil {
		return err
	}
	defer r.Free()
	for n, out := range r.Outputs {
		if out.Name != in[n].Name || out.Type != in[n].Type || !out.Shape.Equal(in[n].Shape) || !bytes.Equal(out.Data, in[n].Data) {
			return fmt.Errorf("output %q %v%v of %d bytes differs from its input", out.Name, out.Type, out.Shape, len(out.Data))
		}
	}
	return nil
}

// fails runs a wanted output and returns the error, which must be of a kind.
func fails(t *testing.T, i *Instance, want string, kind edgewise.Kind) error {
	t.Helper()
	r, err := i.Run(t.Context(), nil, []string{want})
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
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func TestTensorsOfEveryTypeAndShapeCrossUnchanged(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	var all []edgewise.Tensor
	for kind := edgewise.Bool; kind <= edgewise.BF16; kind++ {
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
	r, err := i.Run(t.Context(), nil, []string{"huge"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	if data := r.Outputs[0].Data; len(data) != 48<<20 || data[len(data)-1] != 7 {
		t.Errorf("%d bytes", len(data))
	}
}

func TestManyRunsInFlightEachGetTheirOwnAnswer(t *testing.T) {
	c := setUp(fakeOptions{})
	c.MaxLanes = 8
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
	if s := i.Stats(); s.CopiedIn != 40000 || s.CopiedOut != 0 || s.ChildOut != 40000 {
		t.Errorf("%+v", s)
	}
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
	for range 4 { // runs on several lanes share the memory
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

func TestLoadsThatFailSayWhy(t *testing.T) {
	tests := []struct {
		name, load, want string
		kind             edgewise.Kind
	}{
		{"refused", "refuse", "a model of the wrong kind", edgewise.Unsupported},
		{"crash", "crash", `model "x" version 1: its process died (signal: segmentation fault) while loading`, edgewise.Internal},
		{"too slow", "hang", "context deadline exceeded", edgewise.Deadline},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := setUp(fakeOptions{Load: tt.load})
			if tt.load == "hang" {
				c.LoadTimeout = 300 * time.Millisecond
			}
			_, err := New(c).Load(t.Context(), version(), t.TempDir(), edgewise.Device{})
			if err == nil || err.Error() != tt.want || edgewise.KindOf(err) != tt.kind {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestACrashFailsTheRunsInFlightAndTheModelComesBack(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	before := i.Stats().PID
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			_, err := i.Run(context.Background(), nil, []string{"stuck"})
			if err == nil || err.Error() != `model "x" version 1: its process died (signal: segmentation fault) while running` {
				t.Errorf("a run in flight got %v", err)
			}
		})
	}
	eventually(t, "four runs in flight", func() bool { return i.inFlight() == 4 })
	err := fails(t, i, "crash", edgewise.Unavailable)
	if err.Error() != `model "x" version 1: its process died (signal: segmentation fault) while running` {
		t.Error(err)
	}
	group.Wait()
	eventually(t, "a restart", func() bool { return echo(i, floats("a", 5)) == nil })
	if s := i.Stats(); s.PID == before || s.Crashes != 1 {
		t.Errorf("%+v", s)
	}
}

func (i *Instance) inFlight() int {
	p, err := i.alive()
	if err != nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.made) - len(p.idle)
}

func TestResultsOutliveTheChildThatMadeThem(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	in := floats("a", 5000)
	r, err := i.Run(t.Context(), []edgewise.Tensor{in}, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, i, "crash", edgewise.Unavailable)
	eventually(t, "a restart", func() bool { return echo(i, floats("a", 5000)) == nil })
	if !bytes.Equal(r.Outputs[0].Data, in.Data) {
		t.Error("the result has changed")
	}
	r.Free()
	r.Free() // a second time does nothing
}

func TestAVersionThatKeepsCrashingIsQuarantined(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	for n := range 5 {
		eventually(t, "a restart", func() bool { return i.Stats().PID != 0 })
		fails(t, i, "crash", edgewise.Unavailable)
		eventually(t, "the count of a crash", func() bool { return i.Stats().Crashes == int64(n+1) })
	}
	<-i.ended
	err := fails(t, i, "invalid", edgewise.Unavailable)
	want := `model "x" version 1: its process died 5 times within 10m0s, the last time with: signal: segmentation fault; it is not started again before the model is loaded anew`
	if err.Error() != want {
		t.Error(err)
	}
}

func TestARestartThatCrashesInLoadCounts(t *testing.T) {
	dir := t.TempDir()
	i := load(t, setUp(fakeOptions{}), dir)
	if err := os.WriteFile(filepath.Join(dir, "crash"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, i, "crash", edgewise.Unavailable)
	<-i.ended
	if s := i.Stats(); s.Crashes != 5 || s.PID != 0 {
		t.Errorf("%+v", s)
	}
}

func TestBackOffDoublesUpToItsBound(t *testing.T) {
	c := Config{}.complete()
	var got []time.Duration
	for n := range 12 {
		got = append(got, backOff(c, n+1))
	}
	ms := time.Millisecond
	want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 30000 * ms, 30000 * ms, 30000 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARunIsTerminatedWhenItsContextEnds(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	pid := i.Stats().PID
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := i.Run(ctx, nil, []string{"hang"})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if i.Stats().PID != pid {
		t.Error("the child was killed although it obeyed")
	}
}

func TestARunThatDoesNotTerminateIsKilledAfterTheGrace(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := i.Run(ctx, nil, []string{"stuck"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("killed after %v, before the grace", took)
	}
	eventually(t, "a restart", func() bool { return echo(i, floats("a", 5)) == nil })
}

func TestAChildThatLiesIsKilledAndNothingElse(t *testing.T) {
	for name := range lies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setUp(fakeOptions{})
			c.Arguments = []string{liarVerb, name}
			i := load(t, c, t.TempDir())
			_, err := i.Run(t.Context(), []edgewise.Tensor{floats("a", 3)}, []string{"y"})
			if err == nil || edgewise.KindOf(err) != edgewise.Internal || !strings.Contains(err.Error(), "no sound process") && !strings.Contains(err.Error(), "while running") {
				t.Errorf("got %v", err)
			}
			eventually(t, "the crash", func() bool { return i.Stats().Crashes > 0 })
		})
	}
}

func TestSharedMemoryIsBounded(t *testing.T) {
	c := setUp(fakeOptions{})
	c.MaxArena = 1 << 20
	i := load(t, c, t.TempDir())
	_, err := i.Run(t.Context(), []edgewise.Tensor{floats("a", 1<<19)}, []string{"a"})
	if err == nil || edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("inputs beyond the bound: %v", err)
	}
	fails(t, i, "huge", edgewise.Exhausted)
	var held []*edgewise.Result
	for {
		r, err := i.Run(t.Context(), []edgewise.Tensor{floats("a", 1<<14)}, []string{"a"})
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
		if _, err := i.Run(t.Context(), []edgewise.Tensor{in}, nil); err == nil || edgewise.KindOf(err) != edgewise.TooLarge {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := i.Run(t.Context(), nil, make([]string, maxTensors+1)); err == nil || edgewise.KindOf(err) != edgewise.TooLarge {
		t.Errorf("many outputs: %v", err)
	}
}

func TestTheChildMayDoNothingButItsModel(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	for _, attempt := range []string{"read", "parent's memory", "write", "connect", "kill the parent", "run a program", "socket"} {
		r, err := i.Run(t.Context(), nil, []string{attempt})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Outputs[0].Data[4:]); !strings.Contains(got, "permission denied") && !strings.Contains(got, "not permitted") {
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
			if _, err := i.Run(context.Background(), nil, []string{"stuck"}); err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
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
	descriptors, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 100 {
		cycle()
	}
	eventually(t, "the end of every goroutine", func() bool { return runtime.NumGoroutine() <= goroutines })
	if after := openFiles(t); after > descriptors {
		t.Errorf("%d open files, %d before", after, descriptors)
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

package runner

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func TestLoadsThatFailSayWhy(t *testing.T) {
	tests := []struct {
		name, load, want string
		kind             edgewise.Kind
	}{
		{"refused", "refuse", "a model of the wrong kind", edgewise.Unsupported},
		{
			"crash", "crash", `model "x" version 1: its process died (signal: segmentation fault) while loading`,
			edgewise.Internal,
		},
		{
			"too much processor time", "burn",
			`model "x" version 1: its process died (signal: CPU time limit exceeded) while loading`, edgewise.Internal,
		},
		{"too slow", "hang", `model "x" version 1: its load was ended: context deadline exceeded`, edgewise.Deadline},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := setUp(fakeOptions{Load: tt.load})
			switch tt.load {
			case "hang":
				c.LoadTimeout = 300 * time.Millisecond
			case "burn":
				c.LoadTime = time.Second
			}
			_, err := New(c).Load(t.Context(), version(), t.TempDir(), edgewise.Device{})
			if err == nil || err.Error() != tt.want || edgewise.KindOf(err) != tt.kind {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestACrashFailsTheRunsInFlightAndTheModelComesBack(t *testing.T) {
	for name, options := range map[string]edgewise.RunOptions{
		"": {}, "on a core": {Core: firstCore(t) + 1},
		"others wait": {Queued: true}, "on a core, others wait": {Core: firstCore(t) + 1, Queued: true},
	} {
		t.Run(name, func(t *testing.T) {
			i := load(t, setUp(fakeOptions{}), t.TempDir())
			before := i.Stats().PID
			if got := told(t, i, "again"); got != "again: false" {
				t.Errorf("the first process was told %q", got)
			}
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					_, err := i.Run(context.Background(), nil, []string{"stuck"}, options)
					if err == nil ||
						err.Error() != `model "x" version 1: its process died (signal: segmentation fault) while running` {
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
			if got := told(t, i, "again"); got != "again: true" {
				t.Errorf("the process was told %q: it is to be loaded before others", got)
			}
		})
	}
}

// told is the text of an output.
func told(t *testing.T, i *Instance, output string) string {
	t.Helper()
	result, err := i.Run(t.Context(), nil, []string{output}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer result.Free()
	return string(result.Outputs[0].Data[4:])
}

// TestRunsAreAnsweredWhereverTheirCallersWait has more callers than cores, and changes how they wait from run to
// run.
func TestRunsAreAnsweredWhereverTheirCallersWait(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	var group sync.WaitGroup
	for caller := range 6 {
		group.Go(func() {
			for n := range 200 {
				options := edgewise.RunOptions{Core: (caller + n) % (runtime.NumCPU() + 1), Queued: (caller+n)%3 == 0}
				if err := echoWith(options, i, floats("a", int64(1+n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// TestALostDeviceEndsItsProcessAndIsTold loses a device: the run gets the reason, another process is started, and who
// watches devices is told which one it was. A process on the CPU that dies tells nothing of a device.
func TestALostDeviceEndsItsProcessAndIsTold(t *testing.T) {
	for _, on := range []edgewise.Device{{Kind: edgewise.Vulkan, Index: 1}, {}} {
		c := setUp(fakeOptions{})
		told := make(chan string, 8)
		c.Died = func(on edgewise.Device, cause string) { told <- on.String() + ": " + cause }
		i, err := New(c).Load(t.Context(), version(), t.TempDir(), on)
		if err != nil {
			t.Fatal(err)
		}
		err = fails(t, i.(*Instance), "lose the device", edgewise.Unavailable)
		if !strings.Contains(err.Error(), "the device is lost: it answers nothing") {
			t.Error(err)
		}
		eventually(t, "a restart", func() bool { return echo(i.(*Instance), floats("a", 5)) == nil })
		switch on.Kind {
		case edgewise.CPU:
			if len(told) != 0 {
				t.Errorf("told %q", <-told)
			}
		default:
			if text := <-told; text != "vulkan:1: its device was lost" || len(told) != 0 {
				t.Errorf("told %q, and %d more", text, len(told))
			}
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
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

// runs tells whether a run is on its way to the child or in it.
func (i *Instance) runs() bool {
	p, err := i.alive()
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.all, func(c *channel) bool { return c.run.Load() != 0 })
}

func TestResultsOutliveTheChildThatMadeThem(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	in := floats("a", 5000)
	r, err := i.Run(t.Context(), []edgewise.Tensor{in}, []string{"a"}, edgewise.RunOptions{})
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
	<-i.Ended()
	err := fails(t, i, "invalid", edgewise.Unavailable)
	want := `model "x" version 1: its process died 5 times within 10m0s, the last time with: signal: segmentation ` +
		`fault; it is not started again before the model is loaded again`
	if err.Error() != want {
		t.Error(err)
	}
	p, ok := i.Process()
	if reason := strings.TrimPrefix(want, `model "x" version 1: `); !ok || p.Reason != reason || p.PID != 0 ||
		p.Resident != 0 || p.Crashes != 5 {
		t.Errorf("%+v", p)
	}
}

func TestClosingIsNotAFall(t *testing.T) {
	i, err := New(setUp(fakeOptions{})).Load(t.Context(), version(), t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	child := i.(*Instance)
	if p, ok := child.Process(); !ok || p.PID == 0 || p.Resident < 1<<20 || p.Reason != "" {
		t.Errorf("%+v", p)
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-child.Ended():
		t.Error("a closed instance says that it has fallen")
	default:
	}
}

func TestTheTimeOfALoadBoundsNoRun(t *testing.T) {
	c := setUp(fakeOptions{})
	c.LoadTime = time.Second
	i := load(t, c, t.TempDir())
	r, err := i.Run(t.Context(), nil, []string{"burn"}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
}

func TestARestartThatCrashesInLoadCounts(t *testing.T) {
	dir := t.TempDir()
	i := load(t, setUp(fakeOptions{}), dir)
	if err := os.WriteFile(filepath.Join(dir, "crash"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, i, "crash", edgewise.Unavailable)
	<-i.group.ended
	if s := i.Stats(); s.Crashes != 5 || s.PID != 0 {
		t.Errorf("%+v", s)
	}
}

func TestARunIsTerminatedWhenItsContextEnds(t *testing.T) {
	c := setUp(fakeOptions{})
	c.Grace = time.Minute // the child is slow where the machine is
	i := load(t, c, t.TempDir())
	pid := i.Stats().PID
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := i.Run(ctx, nil, []string{"hang"}, edgewise.RunOptions{})
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
	c := setUp(fakeOptions{})
	i := load(t, c, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := i.Run(ctx, nil, []string{"stuck"}, edgewise.RunOptions{})
		ended <- err
	}()
	eventually(t, "the run", i.runs)
	told := time.Now()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if took := time.Since(told); took < c.Grace {
		t.Errorf("killed after %v, before the grace of %v", took, c.Grace)
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
			_, err := i.Run(t.Context(), []edgewise.Tensor{floats("a", 3)}, []string{"y"}, edgewise.RunOptions{})
			if err == nil || edgewise.KindOf(err) != edgewise.Internal || !strings.Contains(err.Error(), "no sound process") &&
				!strings.Contains(err.Error(), "while running") {
				t.Errorf("got %v", err)
			}
			eventually(t, "the crash", func() bool { return i.Stats().Crashes > 0 })
		})
	}
}

package wasm

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/hostile"
)

var (
	update = flag.Bool("update", false, "write the errors of testdata/hostile into its files")
	traps  = flag.Int("traps", 400, "failing requests of the test for leaks")
)

// corpus reads the hostile modules.
func corpus(t testing.TB) []hostile.Module {
	t.Helper()
	list, err := hostile.Read("testdata/hostile")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// outcome is the text of an error, without what differs from run to run.
func outcome(err error) string {
	if err == nil {
		return "no error"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// neighbours answers what hostile steps ask for: "good" returns its inputs, "hostile" is the step itself.
type neighbours struct{ self edgewise.Instance }

func (n *neighbours) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if req.Model.Name == "hostile" {
		r, err := n.self.Run(ctx, req.Inputs, []string{"x"}, edgewise.RunOptions{Callers: req.Callers})
		if err != nil {
			return nil, err
		}
		return &edgewise.Response{Outputs: r.Outputs, Free: r.Free}, nil
	}
	return &edgewise.Response{Outputs: slices.Clone(req.Inputs)}, nil
}

func hostileModel() *edgewise.Model {
	m := model(ParamModels, "good,hostile", ParamMemory, "4")
	m.Name, m.InstanceGroup[0].Count = "hostile", MaxInferDepth+2
	return m
}

// TestHostileModules meets each module as a user would: uploads it, and calls what was not refused. A good step beside
// it goes on, and no guest is left.
func TestHostileModules(t *testing.T) {
	good := load(t, Config{}, model(), identity)
	for _, h := range corpus(t) {
		t.Run(h.Name, func(t *testing.T) {
			got := meet(t, &h)
			if *update {
				text := fmt.Sprintf("%s\n;; when: %s\n;; want: %s\n%s", h.Head, h.When, got, h.Text)
				if err := os.WriteFile(h.File, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != h.Want {
				t.Errorf("got  %s\nwant %s", got, h.Want)
			}
			result, err := good.Run(t.Context(), floats(3), []string{"x"}, edgewise.RunOptions{})
			if err != nil {
				t.Fatalf("the step beside it: %v", err)
			}
			result.Free()
		})
	}
}

// limit is the time of those that are to be stopped. The others have a minute, so that a busy machine changes nothing.
const limit = 100 * time.Millisecond

// meet uploads a module, calls it, and returns the error.
func meet(t *testing.T, h *hostile.Module) string {
	t.Helper()
	n := &neighbours{}
	c := Config{CacheDir: t.TempDir(), SetupTimeout: time.Minute, RunTimeout: time.Minute, Pause: -1, Infer: n}
	if h.Stopped() {
		c.SetupTimeout, c.RunTimeout = limit, limit
	}
	b := New(c)
	dir := folder(t, h.Binary)
	m := hostileModel()
	if _, err := b.Inspect(t.Context(), dir, m); err != nil || h.Refused() {
		if !h.Refused() {
			t.Errorf("it is refused at upload")
		}
		return outcome(err)
	}
	instance, err := b.Load(t.Context(), &edgewise.Version{ID: edgewise.ModelID{Name: "hostile", Version: 1}, Model: m},
		dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	n.self = instance
	start := time.Now()
	result, err := instance.Run(t.Context(), floats(3), []string{"x"}, edgewise.RunOptions{})
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it ran for %v", took)
	}
	if err == nil {
		result.Free()
	}
	if closing := instance.Close(); closing != nil {
		t.Error(closing)
	}
	if left := instance.(*step).p.guests.Load(); left != 0 {
		t.Errorf("%d guests are left", left)
	}
	return outcome(err)
}

// TestModulesCutAnywhereAreRefused cuts a module at every byte.
func TestModulesCutAnywhereAreRefused(t *testing.T) {
	whole := assemble(t, `(import "edgewise_v1" "log" (func $log (param i32 i32 i32)))`+prelude+`
(table 2 funcref) (elem (i32.const 0) $alloc) (data (i32.const 0) "abc")
(func (export "edgewise_process") (param i32) (result i32) loop $l (br_if $l (i32.const 0)) end local.get 0)`)
	b := New(Config{})
	dir := folder(t, whole)
	names := bytes.Index(whole, []byte("\x04name")) - 2 // where the name section begins, which may be missing, but not cut
	for size := range whole {
		if err := os.WriteFile(filepath.Join(dir, DefaultFilename), whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := b.Inspect(t.Context(), dir, model())
		if err == nil && (size < names-40 || size > names) {
			t.Errorf("a module of %d bytes is accepted with %d", len(whole), size)
		}
		if err != nil && edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("cut at %d: %v (%v)", size, err, edgewise.KindOf(err))
		}
	}
}

// TestTrapsLeakNothing fails -traps requests in every way, from several goroutines, and counts the guests.
func TestTrapsLeakNothing(t *testing.T) {
	bodies := map[string]string{
		"trap": "unreachable", "lie": "i32.const -8", "nothing": "i32.const 0",
		"recursion": "(call $process (local.get 0))",
		"memory":    "loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1))) end unreachable",
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := model(ParamMemory, "4")
			s := load(t, Config{Pause: -1}, m, prelude+`(func $process (export "edgewise_process") (param i32) (result i32) `+body+`)`)
			each := max(*traps/len(bodies)/4, 1)
			done := make(chan int)
			for range 4 {
				go func() {
					failed := 0
					for range each {
						if _, err := s.Run(context.Background(), floats(3), []string{"x"}, edgewise.RunOptions{}); edgewise.KindOf(err) == edgewise.Guest {
							failed++
						}
					}
					done <- failed
				}()
			}
			failed := 0
			for range 4 {
				failed += <-done
			}
			if failed != 4*each {
				t.Errorf("%d of %d requests failed as they should", failed, 4*each)
			}
			settled(t, s)
			if n := s.p.guests.Load(); n != 3 {
				t.Errorf("%d guests, want 3", n)
			}
		})
	}
}

// settled waits until every guest is idle.
func settled(t *testing.T, s *step) {
	t.Helper()
	idle := func() int {
		s.pool.mu.Lock()
		defer s.pool.mu.Unlock()
		return len(s.pool.idle)
	}
	for deadline := time.Now().Add(time.Minute); idle() != s.pool.size; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the guests do not come back")
		}
	}
}

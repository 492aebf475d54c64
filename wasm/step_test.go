package wasm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/hostile"
	"github.com/edgewise-ai/edgewise/test/wat"
)

// prelude is what every step of these tests begins with: memory, a bump allocator whose pointer is a global, and the
// set-up.
const prelude = hostile.Prelude

// identity returns its input list as outputs.
const identity = prelude + `(func (export "edgewise_process") (param i32) (result i32) local.get 0)`

// model declares a step with one input and one output, both called x.
func model(parameters ...string) *edgewise.Model {
	m := &edgewise.Model{
		Name: "step", Platform: Platform, Backend: "wasm", Parameters: map[string]edgewise.ModelParam{},
		Input:         []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}}},
		Output:        []edgewise.ModelOutput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}}},
		InstanceGroup: []edgewise.InstanceGroup{{Count: 2}},
	}
	for i := 0; i < len(parameters); i += 2 {
		m.Parameters[parameters[i]] = edgewise.ModelParam{StringValue: parameters[i+1]}
	}
	return m
}

func folder(t testing.TB, module []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, DefaultFilename), module, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func assemble(t testing.TB, text string) []byte {
	t.Helper()
	module, err := wat.Assemble(text)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// load makes an instance that is closed, and has lost nothing, when the test ends.
func load(t testing.TB, c Config, m *edgewise.Model, text string) *step {
	t.Helper()
	v := &edgewise.Version{ID: edgewise.ModelID{Name: m.Name, Version: 1}, Model: m}
	instance, err := New(c).Load(context.Background(), v, folder(t, assemble(t, text)), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	s := instance.(*step)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := s.p.guests.Load(); n != 0 {
			t.Errorf("%d guests are left after Close", n)
		}
	})
	return s
}

func floats(n int) []edgewise.Tensor {
	data := make([]byte, 4*n)
	for i := range data {
		data[i] = byte(i)
	}
	return []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(n)}, Data: data}}
}

func TestAStepReturnsItsInput(t *testing.T) {
	s := load(t, Config{}, model(), identity)
	for _, n := range []int{0, 1, 1000, 500_000} {
		in := floats(n)
		r, err := s.Run(t.Context(), in, []string{"x"}, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Outputs[0].Data) != string(in[0].Data) || !r.Outputs[0].Shape.Equal(in[0].Shape) {
			t.Errorf("%d elements come back as %v", n, r.Outputs[0].Shape)
		}
		if r.Guest.Fuel == 0 || r.Guest.Memory < 2<<16 {
			t.Errorf("usage %+v", r.Guest)
		}
		r.Free()
	}
}

func TestARunawayIsStoppedAtItsDeadline(t *testing.T) {
	s := load(t, Config{}, model(), prelude+`(func (export "edgewise_process") (param i32) (result i32) loop $l br $l end unreachable)`)
	const want = `model "step" version 1: step: edgewise_process: stopped: the request's time is over`
	for limit := 100 * time.Millisecond; limit < time.Minute; limit *= 2 { // a busy machine may not begin before a short deadline
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := s.Run(ctx, floats(1), []string{"x"}, edgewise.RunOptions{})
		cancel()
		if err == nil || edgewise.KindOf(err) != edgewise.Deadline {
			t.Fatalf("%v", err)
		}
		if strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Errorf("no run says that it was stopped")
}

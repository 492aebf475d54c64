package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/wat"
)

// describedStep returns its input, and says so: it needs no configuration. With the parameter mode = "fail" it fails,
// with "trap" it traps, with "loop" it does not end.
const describedStep = `
(import "edgewise_v1" "parameter" (func $parameter (param i32 i32 i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(memory (export "memory") 2)
(data (i32.const 0) "mode" "no luck")
(data (i32.const 100) "\80\00\00\00{\22name\22:\22echo\22,"
  "\22inputs\22:[{\22name\22:\22x\22,\22datatype\22:\22INT32\22,\22shape\22:[-1]}],"
  "\22outputs\22:[{\22name\22:\22x\22,\22datatype\22:\22INT32\22,\22shape\22:[-1]}]}")
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 4096)
(func (export "edgewise_describe") (result i32) i32.const 100)
(func (export "edgewise_process") (param $in i32) (result i32)
  (if (i32.ne (call $parameter (i32.const 0) (i32.const 4) (i32.const 64) (i32.const 4)) (i32.const 4)) (then (return (local.get $in))))
  (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 102)) (then (call $fail (i32.const 4) (i32.const 7)) (return (i32.const 0))))
  (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 116)) (then unreachable))
  loop $l br $l end unreachable)`

func step(t *testing.T, text string) string {
	t.Helper()
	module, err := wat.Assemble(text)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.wasm")
	if err := os.WriteFile(path, module, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAStepIsPushedAndCalled(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--set", "engine.request_timeout=3s")
	if out := b.must("model", "push", "echo", step(t, describedStep)); !strings.Contains(out, `model "echo" version 1 is live`) {
		t.Fatalf("push says %q", out)
	}
	ask := func(mode string) (*edgewise.Response, error) {
		in := edgewise.Tensor{Name: "x", Type: edgewise.Int32, Shape: edgewise.Shape{2}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}}
		req := &edgewise.Request{Model: edgewise.ModelID{Name: "echo"}, Inputs: []edgewise.Tensor{in}}
		if mode != "" {
			req.Parameters = map[string]any{"mode": mode}
		}
		return b.client.Infer(t.Context(), req)
	}
	good := func() {
		t.Helper()
		r, err := ask("")
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Outputs[0].Data) != "\x01\x02\x03\x04\x05\x06\x07\x08" {
			t.Errorf("answered %v", r.Outputs)
		}
	}
	good()
	in := edgewise.Tensor{Name: "x", Type: edgewise.Int32, Shape: edgewise.Shape{1}, Data: []byte{1, 2, 3, 4}}
	r, err := b.client.Infer(t.Context(), &edgewise.Request{
		Model:  edgewise.ModelID{Name: "echo"},
		Inputs: []edgewise.Tensor{in}, Parameters: map[string]any{"timing": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"timing_total_ns", "timing_compute_ns", "timing_guest_ns", "timing_fuel", "timing_memory_bytes"} {
		if n, _ := r.Parameters[name].(int64); n <= 0 {
			t.Errorf("%s is %v", name, r.Parameters[name])
		}
	}
	for _, test := range []struct {
		mode, want string
		kind       edgewise.Kind
	}{
		{"fail", `model "echo" version 1: step: no luck`, edgewise.Guest},
		{"trap", `model "echo" version 1: step: edgewise_process: trap: unreachable`, edgewise.Guest},
		{"loop", `model "echo" version 1: step: edgewise_process: stopped: the request's time is over`, edgewise.Deadline},
	} {
		_, err := ask(test.mode)
		if err == nil || !strings.Contains(err.Error(), test.want) || edgewise.KindOf(err) != test.kind {
			t.Errorf("%s: got %v, want %s", test.mode, err, test.want)
		}
		good()
	}
	bad := step(t, `(import "env" "system" (func (param i32)))`+describedStep)
	b.refuses(4, []string{`import "env" "system": there is no such module`}, "model", "push", "bad", bad)
}

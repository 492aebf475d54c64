package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// streamer emits as many responses as its input says, each its number. What it does then, the second element chooses: 0
// it returns a list without tensors, 1 its input, 2 it traps, 3 it fails with what last_error says, 4 it emits a list
// without tensors. A refused emit ends it as 3 does.
const streamer = `
(import "edgewise_v1" "emit" (func $emit (param i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
` + prelude + `
(func $failed (result i32)
  (call $fail (i32.const 512) (call $error (i32.const 512) (i32.const 100))) i32.const 0)
(func (export "edgewise_process") (param $in i32) (result i32) (local $d i32) (local $n i32) (local $i i32)
  (local.set $d (i32.load (i32.add (local.get $in) (i32.const 28))))
  (local.set $n (i32.load (local.get $d)))
  block $end loop $next
    (br_if $end (i32.eq (local.get $i) (local.get $n)))
    (i32.store (local.get $d) (local.get $i))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (if (call $emit (local.get $in)) (then (return (call $failed))))
    br $next
  end end
  (if (i32.eq (i32.load offset=4 (local.get $d)) (i32.const 1)) (then (return (local.get $in))))
  (if (i32.eq (i32.load offset=4 (local.get $d)) (i32.const 2)) (then unreachable))
  (if (i32.eq (i32.load offset=4 (local.get $d)) (i32.const 3)) (then (return (call $failed))))
  (if (i32.eq (i32.load offset=4 (local.get $d)) (i32.const 4)) (then (drop (call $emit (i32.const 1024)))))
  i32.const 1024)`

func decoupled() *edgewise.Model {
	m := model()
	m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	return m
}

// streaming loads a decoupled step.
func streaming(t *testing.T, c Config, m *edgewise.Model) edgewise.Answerer {
	t.Helper()
	v := &edgewise.Version{ID: edgewise.ModelID{Name: m.Name, Version: 1}, Model: m}
	instance, err := New(c).Load(t.Context(), v, folder(t, assemble(t, streamer)), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := instance.Close(); err != nil {
			t.Error(err)
		}
	})
	return instance.(edgewise.Answerer)
}

// heard is what a call was answered with.
type heard struct {
	numbers []uint32 // of the responses, the last one included if it has outputs
	ended   int
	err     error
}

// hear runs a step that emits n responses and ends as then says. each is asked about each response that is not the last.
func hear(ctx context.Context, t *testing.T, s edgewise.Answerer, n, then uint32, each func() error) heard {
	t.Helper()
	data := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, n), then)
	var got heard
	call := &edgewise.Call{
		Context: ctx, Want: []string{"x"},
		Request: &edgewise.Request{Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{2}, Data: data}}},
		Answer: func(r *edgewise.Result, last bool, err error) error {
			if r != nil {
				got.numbers = append(got.numbers, binary.LittleEndian.Uint32(r.Outputs[0].Data))
				r.Free()
			}
			if last {
				got.ended++
				got.err = err
				return nil
			}
			return each()
		},
	}
	if err := s.Answer(ctx, []*edgewise.Call{call}); err != nil {
		t.Fatal(err)
	}
	if got.ended != 1 {
		t.Errorf("the call has ended %d times", got.ended)
	}
	return got
}

func reading() error { return nil }

func TestAStepEmitsResponses(t *testing.T) {
	s := streaming(t, Config{}, decoupled())
	for _, test := range []struct {
		n, then uint32
		want    int // responses
		err     string
	}{
		{0, 0, 0, ""},
		{1, 0, 1, ""},
		{10_000, 0, 10_000, ""},
		{3, 1, 4, ""},
		{2, 2, 2, "step: edgewise_process: trap: unreachable"},
		{0, 4, 0, "step: emit: the list has no outputs"},
	} {
		got := hear(t.Context(), t, s, test.n, test.then, reading)
		if len(got.numbers) != test.want {
			t.Errorf("%d, %d: %d responses", test.n, test.then, len(got.numbers))
		}
		for i := range min(test.n, uint32(len(got.numbers))) {
			if got.numbers[i] != i {
				t.Fatalf("response %d is %d", i, got.numbers[i])
			}
		}
		if (got.err == nil) != (test.err == "") || got.err != nil && !strings.Contains(got.err.Error(), test.err) {
			t.Errorf("%d, %d: %v, want %q", test.n, test.then, got.err, test.err)
		}
	}
}

func TestAStepThatIsNotDecoupledMayNotEmit(t *testing.T) {
	s := load(t, Config{}, model(), streamer)
	in := []edgewise.Tensor{{
		Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{2}, Data: []byte{1, 0, 0, 0, 0, 0, 0, 0},
	}}
	_, err := s.Run(t.Context(), in, []string{"x"}, edgewise.RunOptions{})
	if err == nil || !strings.HasSuffix(err.Error(), "emit: the model is not decoupled: a request has one response") {
		t.Error(err)
	}
}

func TestAStreamingStepIsStoppedWithItsClient(t *testing.T) {
	s := streaming(t, Config{}, decoupled())
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	got := hear(ctx, t, s, 1<<32-1, 0, func() error {
		if n++; n == 100 {
			cancel()
		}
		return ctx.Err()
	})
	if n != 100 || got.err == nil || edgewise.KindOf(got.err) != edgewise.Canceled {
		t.Errorf("%d responses: %v", n, got.err)
	}
	refused := hear(t.Context(), t, s, 5, 0, func() error { return errors.New("nobody reads") })
	if len(refused.numbers) != 1 || refused.err == nil || !strings.HasSuffix(refused.err.Error(), "nobody reads") {
		t.Errorf("%d responses: %v", len(refused.numbers), refused.err)
	}
	if next := hear(t.Context(), t, s, 5, 0, reading); len(next.numbers) != 5 || next.err != nil {
		t.Errorf("afterwards: %d responses, %v", len(next.numbers), next.err)
	}
}

func TestAReadersTimeIsNotTheSteps(t *testing.T) {
	own := begin(t.Context(), &program{}, time.Minute, never)
	before := *own
	own.waited(time.Hour)
	if own.deadline != before.deadline.Add(time.Hour) || own.turn.began != before.turn.began.Add(time.Hour) {
		t.Errorf("the deadline moves by %v, the turn by %v", own.deadline.Sub(before.deadline), own.turn.began.Sub(before.turn.began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	clients := begin(ctx, &program{}, time.Minute, never)
	deadline := clients.deadline
	if clients.waited(time.Hour); clients.deadline != deadline {
		t.Error("the request's deadline moves")
	}
}

func TestADescriptionMaySayDecoupled(t *testing.T) {
	d, err := parseDescription(bytes.TrimSpace([]byte(
		`{"decoupled": true, "inputs": [], "outputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]}`)))
	if err != nil || !d.inspection().Decoupled {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestARunPutsResponsesBehindEachOther(t *testing.T) {
	s := streaming(t, Config{}, decoupled())
	ask := func(n uint32) (*edgewise.Result, error) {
		data := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, n), 0)
		in := []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{2}, Data: data}}
		return s.Run(t.Context(), in, []string{"x"}, edgewise.RunOptions{})
	}
	r, err := ask(3)
	if err != nil {
		t.Fatal(err)
	}
	if x := r.Outputs[0]; !x.Shape.Equal(edgewise.Shape{6}) || len(x.Data) != 24 || x.Data[8] != 1 || x.Data[16] != 2 {
		t.Errorf("%v %v", x.Shape, x.Data)
	}
	r.Free()
	if _, err := ask(maxJoined + 2); err == nil || !strings.Contains(err.Error(), "more than 4096 responses") {
		t.Errorf("too many: %v", err)
	}
}

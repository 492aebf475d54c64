package wasm

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// counting is a step whose output is how often it ran, by four kinds of state: a global, memory, grown memory and
// memory's size. The output has the bytes of the input list's record, so the input is four numbers.
const counting = prelude + `
(global $n (mut i32) (i32.const 0)) (global $wide (mut i64) (i64.const 0))
(func (export "edgewise_process") (param $in i32) (result i32) (local $d i32)
  (local.set $d (i32.load (i32.add (local.get $in) (i32.const 28))))
  (global.set $n (i32.add (global.get $n) (i32.const 1)))
  (global.set $wide (i64.add (global.get $wide) (i64.const 0x100000001)))
  (i32.store (i32.const 16) (i32.add (i32.load (i32.const 16)) (i32.const 1)))
  (drop (memory.grow (i32.const 1)))
  (i32.store (i32.const 131088) (i32.add (i32.load (i32.const 131088)) (i32.const 1)))
  (i32.store (local.get $d) (global.get $n))
  (i32.store offset=4 (local.get $d) (i32.load (i32.const 16)))
  (i32.store offset=8 (local.get $d) (i32.load (i32.const 131088)))
  (i32.store offset=12 (local.get $d) (i32.add (memory.size) (i32.wrap_i64 (i64.shr_u (global.get $wide) (i64.const 32)))))
  local.get $in)`

// touching has state in a table, which cannot be put back: its guests are used once.
const touching = counting + `(table 2 funcref) (elem declare func $alloc) (func (table.set 0 (i32.const 0) (ref.func $alloc)))`

func numbers(t *testing.T, s *step) [4]uint32 {
	t.Helper()
	r, err := s.Run(t.Context(), floats(4), []string{"x"}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	var n [4]uint32
	for i := range n {
		n[i] = binary.LittleEndian.Uint32(r.Outputs[0].Data[4*i:])
	}
	return n
}

func TestNothingIsLeftBetweenRequests(t *testing.T) {
	for name, text := range map[string]string{"put back": counting, "replaced": touching} {
		t.Run(name, func(t *testing.T) {
			s := load(t, Config{}, model(), text)
			if s.pool.fresh != (name == "replaced") {
				t.Logf("fresh guests: %v", s.pool.fresh) // whichever takes less time
			}
			for range 20 {
				if got := numbers(t, s); got != [4]uint32{1, 1, 1, 4} {
					t.Fatalf("got %v", got)
				}
			}
		})
	}
}

// sprawling takes a mebibyte, marks the last page of it, and traps when it finds a mark. A guest of that size is put
// back beside the requests.
const sprawling = prelude + `(func (export "edgewise_process") (param $in i32) (result i32)
  (if (i32.gt_u (memory.size) (i32.const 2)) (then unreachable))
  (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
  (if (i32.load (i32.const 1179000)) (then unreachable))
  (i32.store (i32.const 1179000) (i32.const 1))
  local.get $in)`

func TestNothingIsLeftInALargeGuest(t *testing.T) {
	s := load(t, Config{}, model(), sprawling)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 50 {
				r, err := s.Run(t.Context(), floats(4), []string{"x"}, edgewise.RunOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if r.Guest.Memory < asideBytes {
					t.Errorf("the guest has %d bytes", r.Guest.Memory)
				}
				r.Free()
			}
		})
	}
	work.Wait()
	settled(t, s)
}

func TestAStatefulStepKeepsItsState(t *testing.T) {
	m := model(ParamStateful, "true")
	m.InstanceGroup[0].Count = 1
	s := load(t, Config{}, m, counting)
	seen := map[uint32]bool{}
	for range 20 {
		seen[numbers(t, s)[0]] = true
	}
	if len(seen) < 10 {
		t.Errorf("the counts are %v", seen)
	}
}

// TestLentOutputsStay holds results while other requests run on all guests.
func TestLentOutputsStay(t *testing.T) {
	s := load(t, Config{}, model(), identity)
	var held []*edgewise.Result
	for i := range 10 {
		in := floats(1000)
		in[0].Data[0] = byte(i)
		r, err := s.Run(t.Context(), in, []string{"x"}, edgewise.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
	}
	for i, r := range held {
		if r.Outputs[0].Data[0] != byte(i) || r.Outputs[0].Data[5] != 5 {
			t.Errorf("result %d begins with %v", i, r.Outputs[0].Data[:8])
		}
		r.Free()
		r.Free()
	}
	settled(t, s)
}

// TestManyLanesShareTheGuests runs more requests at a time than there are guests.
func TestManyLanesShareTheGuests(t *testing.T) {
	s := load(t, Config{}, model(), counting)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 50 {
				r, err := s.Run(context.Background(), floats(4), []string{"x"}, edgewise.RunOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if n := binary.LittleEndian.Uint32(r.Outputs[0].Data); n != 1 {
					t.Errorf("count %d", n)
				}
				r.Free()
			}
		})
	}
	wait.Wait()
	settled(t, s)
	if n := s.p.guests.Load(); n != 3 {
		t.Errorf("%d guests", n)
	}
}

// sometimes traps when the first number of its input is not 0.
const sometimes = prelude + `(func (export "edgewise_process") (param $in i32) (result i32)
  (if (i32.load (i32.load (i32.add (local.get $in) (i32.const 28)))) (then unreachable)) local.get $in)`

func try(s *step, first byte) error {
	in := []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: []byte{first, 0, 0, 0}}}
	r, err := s.Run(context.Background(), in, []string{"x"}, edgewise.RunOptions{})
	if err == nil {
		r.Free()
	}
	return err
}

func TestRepeatedTrapsPauseAStep(t *testing.T) {
	s := load(t, Config{Pause: time.Hour}, model(ParamMemory, "4"), sometimes)
	deadline := time.Now().Add(time.Minute)
	for guests := s.pool.size + strikes; guests > 0; { // those that there are, and those that replace them at once
		switch kind := edgewise.KindOf(try(s, 1)); {
		case kind == edgewise.Guest:
			guests--
		case kind != edgewise.Unavailable || time.Now().After(deadline):
			t.Fatalf("%v, with %d guests to come", kind, guests)
		default: // paused, while one is still being made
			time.Sleep(time.Millisecond)
		}
	}
	err := try(s, 1)
	if edgewise.KindOf(err) != edgewise.Unavailable ||
		!strings.Contains(err.Error(), "failures in a row, the last one: step: edgewise_process: trap: unreachable") {
		t.Errorf("%v", err)
	}
}

func TestASuccessEndsTheCountOfFailures(t *testing.T) {
	s := load(t, Config{Pause: time.Hour}, model(ParamMemory, "4"), sometimes)
	for range 5 * strikes {
		if err := try(s, 1); edgewise.KindOf(err) != edgewise.Guest {
			t.Fatal(err)
		}
		if err := try(s, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStepRecoversAfterItsPause(t *testing.T) {
	s := load(t, Config{Pause: time.Millisecond, MaxPause: 5 * time.Millisecond}, model(ParamMemory, "4"), sometimes)
	for range 4 * strikes {
		_ = try(s, 1)
	}
	for deadline := time.Now().Add(time.Minute); try(s, 0) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come back")
		}
	}
}

func TestThePolicyFailEndsAStep(t *testing.T) {
	s := load(t, Config{}, model(ParamPolicy, "fail"), sometimes)
	if err := try(s, 0); err != nil {
		t.Fatal(err)
	}
	if err := try(s, 1); edgewise.KindOf(err) != edgewise.Guest {
		t.Errorf("%v", err)
	}
	if err := try(s, 0); edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), "failure_policy is fail") {
		t.Errorf("%v", err)
	}
}

func TestThePolicyBypassAnswersWithTheInputs(t *testing.T) {
	s := load(t, Config{Pause: -1}, model(ParamPolicy, "bypass"), sometimes)
	for first := range byte(2) {
		in := []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: []byte{first, 0, 0, 0}}}
		r, err := s.Run(t.Context(), in, []string{"x"}, edgewise.RunOptions{})
		if err != nil || r.Outputs[0].Data[0] != first || &r.Outputs[0].Data[0] == &in[0].Data[0] {
			t.Fatalf("%v, %v", r, err)
		}
		r.Free()
	}
	if m := s.GuestStatistics(); m.Bypassed != 1 || m.Trapped != 1 {
		t.Errorf("%+v", m)
	}
}

// TestATrialLeavesNoTrace tries steps with made-up inputs: the next request meets neither state nor failures of those.
func TestATrialLeavesNoTrace(t *testing.T) {
	trial := edgewise.RunOptions{Trial: true}
	m := model(ParamStateful, "true")
	m.InstanceGroup[0].Count = 1
	counts := load(t, Config{}, m, counting)
	for range 10 {
		r, err := counts.Run(t.Context(), floats(4), []string{"x"}, trial)
		if err != nil {
			t.Fatal(err)
		}
		if n := binary.LittleEndian.Uint32(r.Outputs[0].Data); n != 1 {
			t.Fatalf("a trial meets the state of %d runs before", n-1)
		}
		r.Free()
	}
	if n := numbers(t, counts)[0]; n != 1 {
		t.Errorf("the first request meets the state of %d trials", n-1)
	}
	fails := load(t, Config{}, model(ParamPolicy, "fail"), sometimes)
	if _, err := fails.Run(t.Context(), floats(2), []string{"x"}, trial); edgewise.KindOf(err) != edgewise.Guest {
		t.Errorf("got %v, want a trap", err)
	}
	if m := fails.GuestStatistics(); m.Trapped != 0 {
		t.Errorf("%d traps are counted", m.Trapped)
	}
	if err := try(fails, 0); err != nil {
		t.Errorf("a request after a trial: %v", err)
	}
	passes := load(t, Config{}, model(ParamPolicy, "bypass"), sometimes)
	if _, err := passes.Run(t.Context(), floats(2), []string{"x"}, trial); edgewise.KindOf(err) != edgewise.Guest {
		t.Errorf("got %v, want a trap: a bypass would hide it", err)
	}
}

func TestACanceledRequestLeavesTheQueueOfGuests(t *testing.T) {
	m := model(ParamMemory, "4")
	m.InstanceGroup[0].Count = 1
	s := load(t, Config{}, m, prelude+`(func (export "edgewise_process") (param i32) (result i32) loop $l br $l end unreachable)`)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error)
	for range 4 {
		go func() {
			_, err := s.Run(ctx, floats(1), []string{"x"}, edgewise.RunOptions{})
			results <- err
		}()
	}
	cancel()
	for range 4 {
		if err := <-results; edgewise.KindOf(err) != edgewise.Canceled {
			t.Errorf("%v", err)
		}
	}
	settled(t, s)
}

func TestTheFuelLimitEndsARun(t *testing.T) {
	s := load(t, Config{Pause: -1}, model(ParamFuel, "1000000"),
		prelude+`(func (export "edgewise_process") (param i32) (result i32) loop $l br $l end unreachable)`)
	_, err := s.Run(t.Context(), floats(1), []string{"x"}, edgewise.RunOptions{})
	if edgewise.KindOf(err) != edgewise.Guest || !strings.Contains(err.Error(), "units of fuel: at most 1000000 are allowed") {
		t.Errorf("%v", err)
	}
	if m := s.GuestStatistics(); m.Stopped != 1 || m.Fuel < 1_000_000 || m.Fuel > 1_000_000+2*slice {
		t.Errorf("%+v", m)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{ParamStateful, "yes", `parameter "stateful": want true or false, got "yes"`},
		{ParamPolicy, "retry", `parameter "failure_policy": want reload, fail or bypass, got "retry"`},
		{ParamModels, "a,../b", `parameter "infer_models": want at most 64 names of models, separated by commas`},
		{ParamModels, strings.Repeat("a,", 64) + "a", `parameter "infer_models"`},
		{ParamInfers, "0", `parameter "infer_calls": want a number of calls from 1 to 65536, got "0"`},
		{ParamInfers, "65537", `parameter "infer_calls": want a number of calls from 1 to 65536, got "65537"`},
		{ParamFuel, "0", `parameter "max_fuel": want a number of units from 1, got "0"`},
		{ParamMemory, "65", `parameter "max_memory_mebibyte": want a number of MiB from 1 to 64, which is what the box allows, got "65"`},
	}
	dir := folder(t, assemble(t, identity))
	for _, test := range tests {
		_, err := New(Config{}).Inspect(t.Context(), dir, model(test.name, test.value))
		if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s = %s: got %v", test.name, test.value, err)
		}
	}
	m := model(ParamPolicy, "bypass")
	m.Output[0].DataType = edgewise.Int32
	if _, err := New(Config{}).Inspect(t.Context(), dir, m); err == nil ||
		!strings.Contains(err.Error(), `failure_policy bypass: output "x" is INT32`) {
		t.Errorf("%v", err)
	}
}

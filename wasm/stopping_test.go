package wasm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// rounds returns its input after some rounds of a loop.
const rounds = prelude + `(func (export "edgewise_process") (param i32) (result i32) (local $i i32)
  loop $l (br_if $l (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000))) end local.get 0)`

// TestGuestsAnswerHoweverTheyAreStopped runs a step in each way, and counts fuel only where it is charged.
func TestGuestsAnswerHoweverTheyAreStopped(t *testing.T) {
	for name, way := range map[string]Stopping{"fuel": Fuel, "interruption": Interruption, "never": Never} {
		t.Run(name, func(t *testing.T) {
			s := load(t, Config{Stopping: way}, model(), rounds)
			for range 3 {
				r, err := s.Run(t.Context(), floats(3), []string{"x"})
				if err != nil {
					t.Fatal(err)
				}
				if (r.Guest.Fuel >= 1000) != (way == Fuel) || string(r.Outputs[0].Data) != string(floats(3)[0].Data) {
					t.Errorf("%d units of fuel, outputs %v", r.Guest.Fuel, r.Outputs)
				}
				r.Free()
			}
		})
	}
}

// TestInterruptionStopsAGuestWithItsRequest holds the runtime's own way to the same error kinds.
func TestInterruptionStopsAGuestWithItsRequest(t *testing.T) {
	s := load(t, Config{Stopping: Interruption, Pause: -1}, model(), prelude+`(func (export "edgewise_process") (param i32) (result i32) loop $l br $l end unreachable)`)
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	_, err := s.Run(ctx, floats(1), []string{"x"})
	if edgewise.KindOf(err) != edgewise.Deadline || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err = s.Run(ctx, floats(1), []string{"x"}); edgewise.KindOf(err) != edgewise.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if m := s.GuestStatistics(); m.Stopped != 2 {
		t.Errorf("%+v", m)
	}
}

// TestAGuestIsLookedAtByItsImports calls imports so often that it must be looked at, and does so little else that its fuel would not have it
// looked at: a request that is over ends there.
func TestAGuestIsLookedAtByItsImports(t *testing.T) {
	const calls = `(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))` + prelude + `
(func (export "edgewise_process") (param $in i32) (result i32) (local $i i32)
  loop $l
    (drop (call $error (i32.const 0) (i32.const 0)))
    (br_if $l (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const %d)))
  end local.get $in)`
	for _, test := range []struct {
		name  string
		times int
		want  edgewise.Kind
	}{
		{"a few", callsBetweenLooks - 1, 0},
		{"many", callsBetweenLooks, edgewise.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := load(t, Config{}, model(), fmt.Sprintf(calls, test.times))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r, err := s.Run(ctx, floats(3), []string{"x"})
			if err == nil {
				r.Free()
			}
			if (err != nil) != (test.want != 0) || err != nil && edgewise.KindOf(err) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

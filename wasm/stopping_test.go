package wasm

import (
	"context"
	"fmt"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// TestAGuestIsLookedAtByItsImports calls imports so often that it must be looked at, and does so little else that its
// fuel would not have it looked at: a request that is over ends there.
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
			r, err := s.Run(ctx, floats(3), []string{"x"}, edgewise.RunOptions{})
			if err == nil {
				r.Free()
			}
			if (err != nil) != (test.want != 0) || err != nil && edgewise.KindOf(err) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

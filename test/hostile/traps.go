package hostile

import (
	"context"
	"fmt"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/wat"
)

// mixers are the steps that trap as often as they are asked to. Each is called by one client.
const mixers = 4

// mixer answers a request whose first byte is 0 and traps in another way for each other value, so that a box has no
// reason to pause it: it does so when a step has failed five times in a row.
const mixer = Prelude + `
(table 2 funcref)
(func $deep (result i32) (i32.add (call $deep) (i32.const 1)))
(func (export "edgewise_process") (param $in i32) (result i32) (local $data i32) (local $mode i32)
  (local.set $data (i32.load (i32.add (local.get $in) (i32.const 28))))
  (local.set $mode (i32.load8_u (local.get $data)))
  (if (i32.eqz (local.get $mode)) (then (return (local.get $in))))
  (if (i32.eq (local.get $mode) (i32.const 1)) (then unreachable))
  (if (i32.eq (local.get $mode) (i32.const 2)) (then (return (i32.div_u (i32.const 1) (i32.const 0)))))
  (if (i32.eq (local.get $mode) (i32.const 3)) (then (return (i32.load (i32.const -4)))))
  (if (i32.eq (local.get $mode) (i32.const 4)) (then (return (call $deep))))
  (if (i32.eq (local.get $mode) (i32.const 5)) (then (call_indirect (param) (i32.const 1))))
  (if (i32.eq (local.get $mode) (i32.const 6)) (then
    loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1))) end (i32.store (i32.const -8) (i32.const 1))))
  (i32.const -8))`

// modes are the ways in which a mixer fails: 1 to this.
const modes = 7

func mixerName(i int) string { return fmt.Sprintf("mixer%d", i) }

// Prepare uploads the steps that Traps calls.
func (a *Attack) Prepare(ctx context.Context) error {
	module, err := wat.Assemble(mixer)
	if err != nil {
		return err
	}
	for i := range mixers {
		if err := a.push(ctx, mixerName(i), module, 2); err != nil {
			return err
		}
	}
	return nil
}

// Traps fails n requests or some more, of each kind as many, from several clients at once; after every three, each step
// must answer one. It returns how many failed.
func (a *Attack) Traps(ctx context.Context, n int) (failed int, err error) {
	var work sync.WaitGroup
	var counts [mixers]int
	var errs [mixers]error
	for i := range mixers {
		work.Go(func() { counts[i], errs[i] = a.trap(ctx, mixerName(i), (n+mixers-1)/mixers) })
	}
	work.Wait()
	for i := range mixers {
		failed += counts[i]
		if errs[i] != nil {
			err = errs[i]
		}
	}
	return failed, err
}

func (a *Attack) trap(ctx context.Context, name string, n int) (failed int, err error) {
	for ; failed < n; failed++ {
		if failed%3 == 0 {
			if err := a.call(ctx, name, 0); err != nil {
				return failed, fmt.Errorf("%s after %d failures: %w", name, failed, err)
			}
		}
		err := a.call(ctx, name, byte(1+failed%modes))
		if err == nil {
			return failed, fmt.Errorf("%s: way %d to fail did not", name, 1+failed%modes)
		}
		if edgewise.KindOf(err) != edgewise.Guest {
			return failed, fmt.Errorf("%s, way %d to fail: %w", name, 1+failed%modes, err)
		}
	}
	return failed, nil
}

package cores

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
)

// TestALongRunLeavesItsCores lets a run of a guest give its core back: another version gets it, and the instance loop
// continues afterwards.
func TestALongRunLeavesItsCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(1)
		guest, model := c.Open(edgewise.ModelID{}, 1).Lease(), c.Open(edgewise.ModelID{}, 1).Lease()
		guest.Wait()
		if c.Idle() != 0 || c.Count() != 1 {
			t.Fatalf("%d of %d cores are idle", c.Idle(), c.Count())
		}
		got := make(chan struct{})
		go func() {
			model.Wait()
			close(got)
		}()
		synctest.Wait()
		c.Leave(context.Background()) // nobody's
		select {
		case <-got:
			t.Fatal("a context without a guest gave a core back")
		default:
		}
		c.Leave(guest.Context(context.Background()))
		<-got
		c.Leave(guest.Context(context.Background())) // again: it holds none
		if c.Idle() != 0 {
			t.Error("a core was given back twice")
		}
		guest.Pass() // the run ends
		model.Pass()
		model.Release()
		if c.Idle() != 1 {
			t.Errorf("%d cores are idle, want 1", c.Idle())
		}
		if !guest.Try() || c.Idle() != 0 {
			t.Error("the instance loop cannot continue")
		}
		guest.Release()
	})
}

// TestNoCoreIsIdleWhileAVersionWaits holds that a version that waits for more cores than are free goes first.
func TestNoCoreIsIdleWhileAVersionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(2)
		one, wide := c.Open(edgewise.ModelID{}, 1).Lease(), c.Open(edgewise.ModelID{}, 2).Lease()
		one.Wait()
		if c.Idle() != 1 {
			t.Errorf("%d cores are idle, want 1", c.Idle())
		}
		go func() {
			wide.Wait()
			wide.Release()
		}()
		synctest.Wait()
		if c.Idle() != 0 {
			t.Errorf("%d cores are idle while a version waits for two", c.Idle())
		}
		one.Release()
		synctest.Wait()
		if c.Idle() != 2 {
			t.Errorf("%d cores are idle, want 2", c.Idle())
		}
	})
}

package sched

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestALongRunLeavesItsCores lets a run of a guest give its core back: another version gets it, and the lane goes on afterwards.
func TestALongRunLeavesItsCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCores(1)
		guest, model := c.open(1).seat(), c.open(1).seat()
		guest.wait()
		if c.Idle() != 0 || c.Count() != 1 {
			t.Fatalf("%d of %d cores are idle", c.Idle(), c.Count())
		}
		got := make(chan struct{})
		go func() {
			model.wait()
			close(got)
		}()
		synctest.Wait()
		c.Leave(context.Background()) // nobody's
		select {
		case <-got:
			t.Fatal("a context without a guest gave a core back")
		default:
		}
		c.Leave(guest.with(context.Background()))
		<-got
		c.Leave(guest.with(context.Background())) // again: it holds none
		if c.Idle() != 0 {
			t.Error("a core was given back twice")
		}
		guest.pass() // the run ends
		model.pass()
		model.give()
		if c.Idle() != 1 {
			t.Errorf("%d cores are idle, want 1", c.Idle())
		}
		if !guest.try() || c.Idle() != 0 {
			t.Error("the lane cannot go on")
		}
		guest.give()
	})
}

// TestNoCoreIsIdleWhileSomebodyWaits holds that a version that waits for more cores than are free goes first.
func TestNoCoreIsIdleWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCores(2)
		one, wide := c.open(1).seat(), c.open(2).seat()
		one.wait()
		if c.Idle() != 1 {
			t.Errorf("%d cores are idle, want 1", c.Idle())
		}
		go func() {
			wide.wait()
			wide.give()
		}()
		synctest.Wait()
		if c.Idle() != 0 {
			t.Errorf("%d cores are idle while a version waits for two", c.Idle())
		}
		one.give()
		synctest.Wait()
		if c.Idle() != 2 {
			t.Errorf("%d cores are idle, want 2", c.Idle())
		}
	})
}

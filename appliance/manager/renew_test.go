package manager

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// other returns a record whose versions are other ones under the same numbers.
func other(r *edgewise.Record) *edgewise.Record {
	changed := *r
	changed.Versions = nil
	for _, v := range r.Versions {
		next := *v
		next.Digest += "x"
		changed.Versions = append(changed.Versions, &next)
	}
	return &changed
}

// TestAVersionIsLoadedOnceMoreBesideItself renews a version: it answers until the new load is there, and goes on
// answering when that fails.
func TestAVersionIsLoadedOnceMoreBesideItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{Concurrency: 2})
		id := edgewise.ModelID{Name: "m", Version: 1}
		if err := m.Renew(id); edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("a version that is not there: %v", err)
		}
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if err := m.Renew(id); err != nil {
			t.Fatal(err)
		}
		if err := m.Renew(id); edgewise.KindOf(err) != edgewise.Conflict {
			t.Errorf("while it is being loaded: %v", err)
		}
		answer(t, m, 1)
		if err := m.Settle(t.Context(), "m"); err != nil || len(loader.loads) != 2 {
			t.Errorf("%v after %d loads", err, len(loader.loads))
		}
		loader.broken[1] = errors.New("the device is gone")
		if err := m.Renew(id); err != nil {
			t.Fatal(err)
		}
		if err := m.Settle(t.Context(), "m"); err == nil || !strings.Contains(err.Error(), "the device is gone") {
			t.Errorf("a load that fails: %v", err)
		}
		answer(t, m, 1)
	})
}

func always(*edgewise.Version, *edgewise.Version) bool { return true }

// TestAVersionIsReplacedUnderLoad changes what stands under one number: every request is answered, and the old one
// goes.
func TestAVersionIsReplacedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{Replaces: always, Concurrency: 2})
		r := live(1, 1)
		m.Want(r)
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					answer(t, m, 0)
				}
			}
		}()
		for range 3 {
			r = other(r)
			m.Want(r)
			if err := m.Settle(t.Context(), "m"); err != nil {
				t.Error(err)
			}
			if v, _, err := m.Version(edgewise.ModelID{Name: "m"}); err != nil || v != r.Versions[0] {
				t.Errorf("served is %v, %v", v, err)
			}
		}
		close(stop)
		<-done
		if len(loader.loads) != 4 {
			t.Errorf("%d loads, want 4", len(loader.loads))
		}
		m.Forget("m")
		synctest.Wait()
		if len(m.models) != 0 {
			t.Error("a forgotten model is still known")
		}
	})
}

func TestAReplacementThatFailsLeavesTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{Replaces: always})
		first := live(1, 1)
		m.Want(first)
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		loader.broken[1] = edgewise.Errorf("x", edgewise.Invalid, "no good")
		second := other(first)
		m.Want(second)
		err := m.Settle(t.Context(), "m")
		if err == nil || err.Error() != "load failed for model 'm': version 1 is at UNAVAILABLE state: no good;" ||
			edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("got %v", err)
		}
		if v, _, err := m.Version(edgewise.ModelID{Name: "m"}); err != nil || v != first.Versions[0] || !m.Ready() {
			t.Errorf("served is %v, %v; ready %v", v, err, m.Ready())
		}
		answer(t, m, 1)
		delete(loader.broken, 1)
		m.Want(second)
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if v, _, err := m.Version(edgewise.ModelID{Name: "m"}); err != nil || v != second.Versions[0] {
			t.Errorf("after the retry: served is %v, %v", v, err)
		}
	})
}

// TestAReplacementThatNobodyWantsAnyMoreIsClosed unloads the model while the replacement loads.
func TestAReplacementThatNobodyWantsAnyMoreIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{Replaces: always})
		r := live(1, 1)
		m.Want(r)
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		m.Want(other(r))
		m.Forget("m")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(m.models) != 0 {
			t.Error("a forgotten model is still known")
		}
	})
}

func TestAReplacementTakesMemoryBesideTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sized(false)
		c.Replaces = always
		m, _ := start(t, c)
		r := live(1, 1)
		m.Want(r)
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		m.Want(other(r))
		if err := m.Settle(t.Context(), "m"); err == nil || edgewise.KindOf(err) != edgewise.Exhausted {
			t.Errorf("got %v, want that the memory does not do", err)
		}
		answer(t, m, 0)
	})
}

package manager

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// fakeSequencer is a servable that holds the sequences that began with it until they end.
type fakeSequencer struct {
	fakeServable
	held  map[uint64]bool
	empty chan struct{} // of Drain
	guard sync.Mutex
}

func (f *fakeSequencer) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	f.guard.Lock()
	id := req.Sequence.ID
	known := f.held[id] || req.Sequence.Start
	if known && !req.Sequence.End {
		f.held[id] = true
	} else {
		delete(f.held, id)
	}
	if f.empty != nil && len(f.held) == 0 {
		close(f.empty)
		f.empty = nil
	}
	f.guard.Unlock()
	if !known {
		return nil, edgewise.Errorf("fake", edgewise.Invalid, "not started")
	}
	return f.fakeServable.Infer(ctx, req)
}

func (f *fakeSequencer) Holds(s edgewise.Sequence) bool {
	f.guard.Lock()
	defer f.guard.Unlock()
	return f.held[s.ID]
}

func (f *fakeSequencer) Drain(ctx context.Context) error {
	f.guard.Lock()
	empty := make(chan struct{})
	if len(f.held) == 0 {
		close(empty)
	} else {
		f.empty = empty
	}
	f.guard.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func startSequencers(t *testing.T, drain time.Duration) *Manager {
	m, loader := start(t, Config{SequenceDrain: drain})
	load := loader.load
	m.config.Load = func(ctx context.Context, v *edgewise.Version) (*Loaded, error) {
		if _, err := load(ctx, v); err != nil {
			return nil, err
		}
		f := &fakeSequencer{fakeServable: fakeServable{t: t, id: v.ID}, held: map[uint64]bool{}}
		return &Loaded{Servable: f, Sequences: f}, nil
	}
	return m
}

// sequenceAnswer is the version that answers a request of a sequence, 0 for an error.
func sequenceAnswer(t *testing.T, m *Manager, version int64, s edgewise.Sequence) int64 {
	r, err := m.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "m", Version: version}, Sequence: s})
	if err != nil {
		return 0
	}
	return r.Model.Version
}

// TestSequenceStaysWithItsVersion replaces a version under sequences in progress.
func TestSequenceStaysWithItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startSequencers(t, 10*time.Second)
		want := func(version, asked int64, s edgewise.Sequence) {
			t.Helper()
			if got := sequenceAnswer(t, m, asked, s); got != version {
				t.Errorf("%+v is answered by version %d, want %d", s, got, version)
			}
		}
		m.Want(live(2, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		for id := range uint64(4) {
			want(1, 0, edgewise.Sequence{ID: id + 1, Start: true})
		}
		m.Want(live(2, 2))
		time.Sleep(2 * time.Second)
		want(1, 0, edgewise.Sequence{ID: 1})
		want(1, 1, edgewise.Sequence{ID: 1})
		want(0, 2, edgewise.Sequence{ID: 1})
		want(2, 0, edgewise.Sequence{ID: 2, Start: true}) // again
		want(2, 0, edgewise.Sequence{ID: 2})
		want(2, 0, edgewise.Sequence{ID: 9, Start: true})
		want(1, 0, edgewise.Sequence{ID: 3, End: true})
		want(0, 0, edgewise.Sequence{ID: 3})
		want(2, 0, edgewise.Sequence{ID: 9})
		for _, s := range m.Statuses() {
			if s.ID.Version == 1 && s.State != edgewise.StateUnloading {
				t.Errorf("version 1 is %v", s.State)
			}
		}
		time.Sleep(9 * time.Second) // its time is over: it began when version 2 was loaded
		synctest.Wait()
		want(0, 0, edgewise.Sequence{ID: 1})
		want(2, 0, edgewise.Sequence{ID: 2, End: true})
		want(2, 0, edgewise.Sequence{ID: 9, End: true})
		if err := m.Settle(t.Context(), "m"); err != nil || len(m.Statuses()) != 1 {
			t.Errorf("%v, statuses %v", err, m.Statuses())
		}
	})
}

func TestDrainSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startSequencers(t, time.Minute)
		if err := m.DrainSequences(t.Context()); err != nil {
			t.Errorf("without any model: %v", err)
		}
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		sequenceAnswer(t, m, 0, edgewise.Sequence{ID: 1, Start: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := m.DrainSequences(ctx); err == nil || time.Since(begin) != time.Second {
			t.Errorf("a sequence in progress: %v after %v", err, time.Since(begin))
		}
		time.AfterFunc(3*time.Second, func() { sequenceAnswer(t, m, 0, edgewise.Sequence{ID: 1, End: true}) })
		if err := m.DrainSequences(t.Context()); err != nil || time.Since(begin) != 4*time.Second {
			t.Errorf("a sequence that ends: %v after %v", err, time.Since(begin))
		}
		synctest.Wait()
	})
}

// TestUnloadWaitsForSequences unloads a model, whose sequence ends while it may, and closes another one with a sequence
// in progress, which waits for nothing.
func TestUnloadWaitsForSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startSequencers(t, 10*time.Second)
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		sequenceAnswer(t, m, 0, edgewise.Sequence{ID: 1, Start: true})
		begin := time.Now()
		unwanted := live(1, 1)
		unwanted.Wanted = false
		m.Want(unwanted)
		time.Sleep(3 * time.Second)
		if got := sequenceAnswer(t, m, 0, edgewise.Sequence{ID: 1, End: true}); got != 1 {
			t.Errorf("answered by %d", got)
		}
		if err := m.Settle(t.Context(), "m"); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("unloaded after %v, %v", time.Since(begin), err)
		}
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		sequenceAnswer(t, m, 0, edgewise.Sequence{ID: 1, Start: true})
		begin = time.Now()
		if err := m.Close(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("closed after %v, %v", time.Since(begin), err)
		}
	})
}

// TestLoadDoesNotWaitForSequences loads a version again while it ends its sequences, and replaces it under its number.
func TestLoadDoesNotWaitForSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startSequencers(t, 10*time.Second)
		m.config.Replaces = func(old, now *edgewise.Version) bool { return true }
		settle := func() { // a load takes a second
			t.Helper()
			begin := time.Now()
			if err := m.Settle(t.Context(), "m"); err != nil || time.Since(begin) > time.Second {
				t.Fatalf("settled after %v, %v", time.Since(begin), err)
			}
		}
		want := func(answered bool, s edgewise.Sequence) {
			t.Helper()
			if got := sequenceAnswer(t, m, 0, s); (got == 1) != answered {
				t.Errorf("%+v is answered by version %d", s, got)
			}
		}
		m.Want(live(1, 1))
		settle()
		want(true, edgewise.Sequence{ID: 1, Start: true})
		unwanted := live(1, 1)
		unwanted.Wanted = false
		m.Want(unwanted)
		want(true, edgewise.Sequence{ID: 1})
		want(false, edgewise.Sequence{ID: 2, Start: true})
		m.Want(live(1, 1))
		settle()
		want(true, edgewise.Sequence{ID: 1})
		want(true, edgewise.Sequence{ID: 2, Start: true})
		m.Want(live(1, 1)) // another version under the same number
		settle()
		want(true, edgewise.Sequence{ID: 1})
		want(true, edgewise.Sequence{ID: 2})
		want(true, edgewise.Sequence{ID: 3, Start: true})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		want(false, edgewise.Sequence{ID: 1})
		want(false, edgewise.Sequence{ID: 2})
		want(true, edgewise.Sequence{ID: 3, End: true})
		if n := len(m.Statuses()); n != 1 {
			t.Errorf("%d versions", n)
		}
	})
}

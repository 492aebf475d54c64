package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// fakeServable answers with its own version and fails the test when it is used after Close.
type fakeServable struct {
	t      *testing.T
	id     edgewise.ModelID
	delay  time.Duration
	mu     sync.Mutex
	closed bool
}

func (f *fakeServable) Infer(context.Context, *edgewise.Request) (*edgewise.Response, error) {
	time.Sleep(f.delay)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		f.t.Errorf("%v was used after Close", f.id)
	}
	return &edgewise.Response{Model: f.id}, nil
}

func (f *fakeServable) Statistics() edgewise.Statistics {
	return edgewise.Statistics{InferenceCount: uint64(f.id.Version)}
}

func (f *fakeServable) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// fakeLoader loads after a second, except versions in broken.
type fakeLoader struct {
	t      *testing.T
	mu     sync.Mutex
	broken map[int64]error
	loads  []int64
	now    int
	most   int
}

func (f *fakeLoader) load(ctx context.Context, v *edgewise.Version) (*Loaded, error) {
	f.mu.Lock()
	f.loads = append(f.loads, v.ID.Version)
	f.now++
	f.most = max(f.most, f.now)
	err := f.broken[v.ID.Version]
	f.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	if err != nil {
		return nil, err
	}
	return &Loaded{Servable: &fakeServable{t: f.t, id: v.ID, delay: 10 * time.Millisecond}}, nil
}

func start(t *testing.T, c Config) (*Manager, *fakeLoader) {
	loader := &fakeLoader{t: t, broken: map[int64]error{}}
	c.Load, c.Logger = loader.load, slog.New(slog.DiscardHandler)
	m := New(c)
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m, loader
}

func live(n, v int64) *edgewise.Record { return record(n, nil, map[string]int64{"live": v}) }

func answer(t *testing.T, m *Manager, version int64) int64 {
	t.Helper()
	r, err := m.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "m", Version: version}})
	if err != nil {
		t.Error(err)
		return 0
	}
	return r.Model.Version
}

func TestLookupErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		check := func(version int64, kind edgewise.Kind, want string) {
			t.Helper()
			_, err := m.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "m", Version: version}})
			if err == nil || err.Error() != want || edgewise.KindOf(err) != kind {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		check(0, edgewise.NotFound, "Request for unknown model: 'm' is not found")
		m.Want(live(1, 1))
		check(0, edgewise.NotFound, "Request for unknown model: 'm' has no available versions")
		check(1, edgewise.Unavailable, "Request for unknown model: 'm' version 1 is not at ready state")
		check(9, edgewise.NotFound, "Request for unknown model: 'm' version 9 is not found")
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, m, 0) + answer(t, m, 1); got != 2 {
			t.Errorf("answered by %d", got)
		}
		m.Forget("m")
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		check(0, edgewise.NotFound, "Request for unknown model: 'm' is not found")
	})
}

// TestVersionListsWhatWasAskedFor: of a model all ready versions, of a version that one alone.
func TestVersionListsWhatWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		m.Want(live(3, 3), 1, 2)
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		for asked, want := range map[int64]string{0: "3 of [1 2 3]", 1: "1 of [1]", 3: "3 of [3]"} {
			v, ready, err := m.Version(edgewise.ModelID{Name: "m", Version: asked})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(v.ID.Version, " of ", ready); got != want {
				t.Errorf("version %d: %s, want %s", asked, got, want)
			}
		}
	})
}

// TestSwapUnderLoad moves the live label back and forth under a steady load: every request is answered.
func TestSwapUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		m.Want(live(2, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		seen := make(chan map[int64]int, 8)
		for range 8 {
			go func() {
				counts := map[int64]int{}
				for {
					select {
					case <-stop:
						seen <- counts
						return
					default:
						counts[answer(t, m, 0)]++
					}
				}
			}()
		}
		for i := range 20 {
			m.Want(live(2, int64(i%2)+1))
			if err := m.Settle(t.Context(), "m"); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		close(stop)
		for range 8 {
			counts := <-seen
			if counts[0] != 0 || counts[1] == 0 || counts[2] == 0 {
				t.Errorf("answers by version: %v", counts)
			}
		}
	})
}

func TestFailedLoadKeepsTheOldVersionAndTellsWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{})
		m.Want(live(2, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		loader.broken[2] = edgewise.Errorf("x", edgewise.Exhausted, "out of memory")
		m.Want(live(2, 2))
		err := m.Settle(t.Context(), "m")
		want := "load failed for model 'm': version 2 is at UNAVAILABLE state: out of memory;"
		if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Exhausted {
			t.Errorf("got %v, want %s", err, want)
		}
		if got := answer(t, m, 0); got != 1 {
			t.Errorf("answered by version %d", got)
		}
		if m.Ready() {
			t.Error("ready although a wanted version failed")
		}
		delete(loader.broken, 2)
		m.Want(live(2, 2))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, m, 0); got != 2 || !m.Ready() {
			t.Errorf("after the retry: answered by version %d, ready %v", got, m.Ready())
		}
	})
}

func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{})
		m.Want(live(3, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		m.Want(live(3, 1), 2)
		if err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 2}); err != nil {
			t.Fatal(err)
		}
		if answer(t, m, 0) != 1 || answer(t, m, 2) != 2 {
			t.Error("a trial answers requests that do not name it")
		}
		loader.broken[3] = errors.New("no")
		m.Want(live(3, 1), 3)
		if err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 3}); err == nil {
			t.Error("a broken trial is reported as ready")
		}
		m.Want(live(3, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Error(err)
		}
		if got := len(m.Statuses()); got != 1 {
			t.Errorf("%d versions left after the trials: %v", got, m.Statuses())
		}
		if err := m.Await(t.Context(), edgewise.ModelID{Name: "m", Version: 3}); err == nil ||
			edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("waiting for a version nobody wants: %v", err)
		}
	})
}

func TestWaitsAreBoundByTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		m.Want(live(1, 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := m.Settle(ctx, "m"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Settle: %v", err)
		}
		if err := m.Await(ctx, edgewise.ModelID{Name: "m", Version: 1}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await: %v", err)
		}
	})
}

func TestLoadsAreBounded(t *testing.T) {
	for _, limit := range []int{1, 2} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, loader := start(t, Config{Concurrency: limit})
				m.Want(record(5, &edgewise.VersionPolicy{All: &struct{}{}}, map[string]int64{"live": 5}))
				if err := m.Settle(t.Context(), "m"); err != nil {
					t.Fatal(err)
				}
				if loader.most != limit || len(loader.loads) != 5 {
					t.Errorf("%d loads at once of %d", loader.most, len(loader.loads))
				}
			})
		})
	}
}

func TestLoadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{LoadTimeout: 10 * time.Millisecond})
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err == nil || edgewise.KindOf(err) != edgewise.Deadline {
			t.Errorf("got %v", err)
		}
	})
}

func TestCloseDrainsAndNamesWhatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		h, err := m.acquire(edgewise.ModelID{Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = m.Close(ctx)
		if err == nil || err.Error() != `versions still in use: ["m" version 1]` {
			t.Errorf("Close with a request in flight: %v", err)
		}
		h.release()
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		m.Want(live(1, 1))
		if len(m.Statuses()) != 0 {
			t.Error("a closed manager takes wishes")
		}
	})
}

func TestPanicWhileLoadingIsAFailure(t *testing.T) {
	m := New(Config{
		Load:   func(context.Context, *edgewise.Version) (*Loaded, error) { panic("ouch") },
		Logger: slog.New(slog.DiscardHandler),
	})
	m.Want(live(1, 1))
	want := "load failed for model 'm': version 1 is at UNAVAILABLE state: loading \"m\" version 1 panicked: ouch;"
	if err := m.Settle(t.Context(), "m"); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

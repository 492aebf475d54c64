package manager

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// fixture is a manager of models that load after a second, in the order in which they were loaded and closed.
type fixture struct {
	*Manager
	t      *testing.T
	broken map[string]error
	events []string
}

func newFixture(t *testing.T, c Config) *fixture {
	h := &fixture{t: t, broken: map[string]error{}}
	c.Load = func(_ context.Context, v *edgewise.Version) (*Loaded, error) {
		time.Sleep(time.Second)
		if err := h.broken[v.ID.Name]; err != nil {
			return nil, err
		}
		h.note("load " + v.ID.Name)
		return &Loaded{Servable: &noted{fakeServable{t: t, id: v.ID}, h}}, nil
	}
	c.Logger = slog.New(slog.DiscardHandler)
	h.Manager = New(c)
	return h
}

// note appends an event; the manager's mutex guards the list.
func (h *fixture) note(event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

// wantEvents claims that one of these orders was seen.
func (h *fixture) wantEvents(orders ...string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := strings.Join(h.events, ", "); !slices.Contains(orders, got) {
		h.t.Errorf("%s; want %s", got, strings.Join(orders, "; or "))
	}
	h.events = nil
}

type noted struct {
	fakeServable
	fixture *fixture
}

// Close says that it was called.
func (n *noted) Close() error {
	n.fixture.note("close " + n.id.Name)
	return n.fakeServable.Close()
}

// stored is a model of one version that pins version 1 of others.
func stored(name string, wanted bool, pins ...string) *edgewise.Record {
	m := &edgewise.Model{Name: name}
	if len(pins) > 0 {
		m.EnsembleScheduling = &edgewise.EnsembleScheduling{}
	}
	for _, pin := range pins {
		m.EnsembleScheduling.Step = append(m.EnsembleScheduling.Step,
			edgewise.EnsembleStep{ModelName: pin, Pinned: &edgewise.EnsemblePin{Version: 1}})
	}
	return &edgewise.Record{
		Name: name, Wanted: wanted, Labels: []edgewise.Label{{Name: edgewise.LiveLabel, Version: 1}},
		Versions: []*edgewise.Version{{ID: edgewise.ModelID{Name: name, Version: 1}, Model: m}},
	}
}

func (h *fixture) settle(names ...string) {
	h.t.Helper()
	for _, name := range names {
		if err := h.Settle(h.t.Context(), name); err != nil {
			h.t.Fatal(err)
		}
	}
}

func TestPartsAreLoadedBeforeAndClosedAfterTheirEnsembles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Config{Concurrency: 1}) // so that an ensemble that waits for its parts must not take their turn
		h.Start([]*edgewise.Record{
			stored("E", true, "F", "z", "F"), stored("F", false, "a"), stored("a", false),
			stored("z", true),
		})
		h.settle("E")
		h.wantEvents("load z, load a, load F, load E", "load a, load z, load F, load E")
		if _, err := h.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "a"}}); err == nil {
			t.Error("a part that nobody wants answers requests that name no version")
		}
		if _, err := h.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "a", Version: 1}}); err != nil {
			t.Error(err)
		}
		if !h.Ready() {
			t.Error("not ready")
		}
		h.Want(stored("E", false, "F", "z", "F"))
		h.settle("E", "F", "a")
		h.wantEvents("close E, close F, close a")
		h.Want(stored("E", true, "F", "z", "F"))
		h.settle("E")
		h.wantEvents("load a, load F, load E")
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(h.events, ", "); strings.Index(got, "close E") > strings.Index(got, "close F") ||
			strings.Index(got, "close F") > strings.Index(got, "close a") {
			t.Errorf("parts were closed before what uses them: %s", got)
		}
	})
}

func TestTwoEnsemblesShareAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Config{Concurrency: 4})
		h.Start([]*edgewise.Record{stored("D", true, "a"), stored("E", true, "a"), stored("a", false)})
		h.settle("D", "E")
		h.Want(stored("D", false, "a"))
		h.settle("D", "a")
		if _, err := h.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: "a", Version: 1}}); err != nil {
			t.Errorf("the part went with the first ensemble: %v", err)
		}
		h.Want(stored("E", false, "a"))
		h.settle("E", "a")
		if len(h.Statuses()) != 0 || len(h.holds) != 0 {
			t.Errorf("left: %v, holds %v", h.Statuses(), h.holds)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAPartThatFailsIsTheEnsemblesReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Config{Concurrency: 4})
		h.broken["a"] = edgewise.Errorf("x", edgewise.Exhausted, "out of memory")
		h.Start([]*edgewise.Record{stored("E", true, "a", "b"), stored("a", false), stored("b", false)})
		want := "load failed for model 'E': version 1 is at UNAVAILABLE state: in ensemble 'E', load failed for model 'a': " +
			"version 1 is at UNAVAILABLE state: out of memory;;"
		if err := h.Settle(t.Context(), "E"); err == nil || err.Error() != want ||
			edgewise.KindOf(err) != edgewise.Exhausted {
			t.Errorf("got %v, want %s", err, want)
		}
		h.settle("b")
		if len(h.holds) != 0 {
			t.Errorf("holds left: %v", h.holds)
		}
		delete(h.broken, "a")
		h.Want(stored("E", true, "a", "b"))
		h.settle("E")
		if !h.Ready() {
			t.Error("not ready after the retry")
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAPartThatIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t, Config{})
		h.Start([]*edgewise.Record{stored("E", true, "a")})
		if err := h.Settle(t.Context(), "E"); err == nil ||
			!strings.Contains(err.Error(), `in ensemble 'E', model "a" version 1 is not to be loaded`) {
			t.Errorf("got %v", err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

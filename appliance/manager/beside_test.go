package manager

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
)

func TestAVersionThatIsLoadedBesideAnswersOnlyItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		id := edgewise.ModelID{Name: "m", Version: 1}
		b, err := m.Beside(t.Context(), &edgewise.Version{ID: id, Model: &edgewise.Model{Name: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		served, err := m.acquire(id)
		if err != nil {
			t.Fatal(err)
		}
		served.release()
		if served.loaded.Servable == b.Servable {
			t.Error("requests of clients find it")
		}
		if resp, err := b.Infer(t.Context(), &edgewise.Request{Model: id}); err != nil || resp.Model != id {
			t.Errorf("%v, %v", resp, err)
		}
		m.Forget("m") // while it is loaded
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(t.Context()); err != nil || len(m.models) != 0 {
			t.Errorf("%v, %d models are left", err, len(m.models))
		}
	})
}

func TestWhatCannotBeLoadedBesideLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loader := start(t, Config{})
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		id := edgewise.ModelID{Name: "m", Version: 1}
		loader.broken[1] = edgewise.Errorf("fake", edgewise.Invalid, "it is broken")
		if _, err := m.Beside(t.Context(), &edgewise.Version{ID: id, Model: &edgewise.Model{}}); edgewise.KindOf(err) != edgewise.Invalid {
			t.Error(err)
		}
		delete(loader.broken, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Beside(ctx, &edgewise.Version{ID: id, Model: &edgewise.Model{}}); err != context.Canceled {
			t.Error(err)
		}
		other := edgewise.ModelID{Name: "other", Version: 1}
		if _, err := m.Beside(t.Context(), &edgewise.Version{ID: other, Model: &edgewise.Model{}}); edgewise.KindOf(err) != edgewise.Unavailable {
			t.Error(err)
		}
		if len(m.models["m"].beside) != 0 {
			t.Error("something is left beside")
		}
	})
}

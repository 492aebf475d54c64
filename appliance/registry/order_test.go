package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

// held waits until users hold or wait for a model's lock, or done is closed.
func (h *fixture) held(name string, users int, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		if h.LockUsers(name) >= users {
			return
		}
		runtime.Gosched()
	}
}

// gate returns a hook that stops at one stage of one content, a channel that is closed there, and how to go on.
func gate(stage, content string) (hook func(string, string) error, reached <-chan struct{}, proceed func()) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	return func(s, c string) error {
		if s == stage && c == content {
			once.Do(func() { close(entered) })
			<-leave
		}
		return nil
	}, entered, func() { close(leave) }
}

func TestAStagedUploadDoesNotEndTheTrialOfAnother(t *testing.T) {
	h := newFixture(t)
	hook, loading, proceed := gate("load", "slow")
	h.Backend.Hook = hook
	var clients sync.WaitGroup
	clients.Go(func() {
		if _, err := h.PushFile("m", "slow", 0, true); err != nil {
			t.Errorf("the version that was being tried: %v", err)
		}
	})
	<-loading
	staged := make(chan struct{})
	clients.Go(func() {
		defer close(staged)
		if _, err := h.PushFile("m", "staged", 0, false); err != nil {
			t.Errorf("the staged version: %v", err)
		}
	})
	h.held("m", 2, staged)
	proceed()
	clients.Wait()
	h.WantAnswer("m", "slow")
}

func TestLoadKeepsALabelThatWasSetWhileItWaited(t *testing.T) {
	h := newFixture(t)
	for _, content := range []string{"one", "two"} {
		_, err := h.PushFile("m", content, 0, false)
		h.Must(err)
	}
	unlock, err := h.Lock(t.Context(), "m")
	h.Must(err)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		if err := h.Load(t.Context(), "m"); err != nil {
			t.Error(err)
		}
	}()
	h.held("m", 2, loaded)
	_, err = h.SetLabelLocked(t.Context(), "m", edgewise.LiveLabel, 1)
	h.Must(err)
	unlock()
	<-loaded
	h.WantAnswer("m", "one")
}

func TestWaitingForAnotherChangeEndsWithItsContext(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushFile("m", "one", 0, true)
	h.Must(err)
	unlock, err := h.Lock(t.Context(), "m")
	h.Must(err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, setting := h.SetLabel(ctx, "m", edgewise.LiveLabel, 1)
	_, rolling := h.Rollback(ctx, "m", edgewise.LiveLabel)
	for name, err := range map[string]error{
		"SetLabel": setting, "Rollback": rolling, "RemoveLabel": h.RemoveLabel(ctx, "m", "beta"), "Load": h.Load(ctx,
			"m"), "Unload": h.Unload(ctx, "m"),
		"DeleteVersion": h.DeleteVersion(ctx, edgewise.ModelID{Name: "m", Version: 1}), "DeleteModel": h.DeleteModel(ctx, "m"),
	} {
		if err == nil || edgewise.KindOf(err) != edgewise.Canceled {
			t.Errorf("%s: %v, want canceled", name, err)
		}
	}
	h.WantAnswer("m", "one")
}

func TestPromotingAndDeletingAVersionAtOnce(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushFile("m", "one", 0, true)
	h.Must(err)
	for range 20 {
		v, err := h.PushFile("m", "next", 0, false)
		h.Must(err)
		var promoting, deleting error
		var clients sync.WaitGroup
		clients.Go(func() { _, promoting = h.SetLabel(t.Context(), "m", edgewise.LiveLabel, v.ID.Version) })
		clients.Go(func() { deleting = h.DeleteVersion(t.Context(), v.ID) })
		clients.Wait()
		switch {
		case promoting == nil && deleting != nil && edgewise.KindOf(deleting) == edgewise.Conflict:
			h.WantAnswer("m", "next")
		case deleting == nil && promoting != nil && edgewise.KindOf(promoting) == edgewise.NotFound:
		default:
			t.Fatalf("version %d: promoting: %v; deleting: %v", v.ID.Version, promoting, deleting)
		}
		_, err = h.SetLabel(t.Context(), "m", edgewise.LiveLabel, 1)
		h.Must(err)
		h.WantAnswer("m", "one")
	}
}

func TestPromotingAndDeletingAModelAtOnce(t *testing.T) {
	h := newFixture(t)
	for i := range 20 {
		_, err := h.PushFile("m", fmt.Sprint("content ", i), 0, true)
		h.Must(err)
		v, err := h.PushFile("m", "next", 0, false)
		h.Must(err)
		var clients sync.WaitGroup
		clients.Go(func() {
			_, err := h.SetLabel(t.Context(), "m", edgewise.LiveLabel, v.ID.Version)
			if err != nil && edgewise.KindOf(err) != edgewise.NotFound {
				t.Errorf("promoting: %v", err)
			}
		})
		clients.Go(func() {
			if err := h.DeleteModel(t.Context(), "m"); err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
		clients.Wait()
		h.WantAnswer("m", "not_found")
	}
}

func TestARequestInFlightOutlivesItsModel(t *testing.T) {
	h := newFixture(t)
	hook, running, proceed := gate("run", "old")
	h.Backend.Hook = hook
	_, err := h.PushFile("m", "old", 0, true)
	h.Must(err)
	answer := make(chan string)
	go func() { answer <- h.Ask("m") }()
	<-running
	h.Must(h.DeleteModel(t.Context(), "m"))
	h.WantAnswer("m", "not_found")
	_, err = h.PushFile("m", "new", 0, true)
	h.Must(err)
	h.WantAnswer("m", "new")
	proceed()
	if got := <-answer; got != "old" {
		t.Errorf("the request in flight got %q", got)
	}
	h.Must(h.Manager.Settle(t.Context(), "m"))
	if n := h.Backend.Loaded.Load(); n != 1 {
		t.Errorf("%d instances are loaded, want that of the new model", n)
	}
}

func TestAVersionThatFailsItsWarmUpGivesItsMemoryBack(t *testing.T) {
	h := newFixture(t)
	h.Backend.Hook = func(stage, content string) error {
		if stage == "run" && content == "faulty" {
			return errors.New("out of order")
		}
		return nil
	}
	_, err := h.PushFile("m", "good", 0, true)
	h.Must(err)
	_, err = h.Push(t.Context(), models.Upload("m", []models.File{
		{"model.onnx", "faulty"},
		{"config.pbtxt", `model_warmup { name: "w" batch_size: 1 inputs { key: "in" value { data_type: TYPE_STRING ` +
			`dims: 1 zero_data: true } } }`},
	}...), true)
	if err == nil {
		t.Error("a version that fails its warm-up went live")
	}
	h.WantAnswer("m", "good")
	h.Must(h.Manager.Settle(t.Context(), "m"))
	if n := h.Backend.Loaded.Load(); n != 1 {
		t.Errorf("%d instances are loaded, want that of the live version", n)
	}
}

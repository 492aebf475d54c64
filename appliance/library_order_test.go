package appliance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// held waits until users hold or wait for a model's lock, or done is closed.
func (h *house) held(name string, users int, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		h.locks.mu.Lock()
		n := h.locks.held[name]
		reached := n != nil && n.users >= users
		h.locks.mu.Unlock()
		if reached {
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
	h := newHouse(t)
	hook, loading, proceed := gate("load", "slow")
	h.backend.hook = hook
	var clients sync.WaitGroup
	clients.Go(func() {
		if _, err := h.push("m", "slow", 0, true); err != nil {
			t.Errorf("the version that was being tried: %v", err)
		}
	})
	<-loading
	staged := make(chan struct{})
	clients.Go(func() {
		defer close(staged)
		if _, err := h.push("m", "staged", 0, false); err != nil {
			t.Errorf("the staged version: %v", err)
		}
	})
	h.held("m", 2, staged)
	proceed()
	clients.Wait()
	h.wantAnswer("m", "slow")
}

func TestLoadKeepsALabelThatWasSetWhileItWaited(t *testing.T) {
	h := newHouse(t)
	for _, content := range []string{"one", "two"} {
		_, err := h.push("m", content, 0, false)
		h.must(err)
	}
	unlock, err := h.locks.lock(t.Context(), "m")
	h.must(err)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		if err := h.Load(t.Context(), "m"); err != nil {
			t.Error(err)
		}
	}()
	h.held("m", 2, loaded)
	_, err = h.setLabel(t.Context(), "m", edgewise.LiveLabel, 1)
	h.must(err)
	unlock()
	<-loaded
	h.wantAnswer("m", "one")
}

func TestWaitingForAnotherChangeEndsWithItsContext(t *testing.T) {
	h := newHouse(t)
	_, err := h.push("m", "one", 0, true)
	h.must(err)
	unlock, err := h.locks.lock(t.Context(), "m")
	h.must(err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, setting := h.SetLabel(ctx, "m", edgewise.LiveLabel, 1)
	_, rolling := h.Rollback(ctx, "m", edgewise.LiveLabel)
	for name, err := range map[string]error{
		"SetLabel": setting, "Rollback": rolling, "RemoveLabel": h.RemoveLabel(ctx, "m", "beta"), "Load": h.Load(ctx, "m"), "Unload": h.Unload(ctx, "m"),
		"DeleteVersion": h.DeleteVersion(ctx, edgewise.ModelID{Name: "m", Version: 1}), "DeleteModel": h.DeleteModel(ctx, "m"),
	} {
		if err == nil || edgewise.KindOf(err) != edgewise.Canceled {
			t.Errorf("%s: %v, want canceled", name, err)
		}
	}
	h.wantAnswer("m", "one")
}

func TestPromotingAndDeletingAVersionAtOnce(t *testing.T) {
	h := newHouse(t)
	_, err := h.push("m", "one", 0, true)
	h.must(err)
	for range 20 {
		v, err := h.push("m", "next", 0, false)
		h.must(err)
		var promoting, deleting error
		var clients sync.WaitGroup
		clients.Go(func() { _, promoting = h.SetLabel(t.Context(), "m", edgewise.LiveLabel, v.ID.Version) })
		clients.Go(func() { deleting = h.DeleteVersion(t.Context(), v.ID) })
		clients.Wait()
		switch {
		case promoting == nil && deleting != nil && edgewise.KindOf(deleting) == edgewise.Conflict:
			h.wantAnswer("m", "next")
		case deleting == nil && promoting != nil && edgewise.KindOf(promoting) == edgewise.NotFound:
		default:
			t.Fatalf("version %d: promoting: %v; deleting: %v", v.ID.Version, promoting, deleting)
		}
		_, err = h.SetLabel(t.Context(), "m", edgewise.LiveLabel, 1)
		h.must(err)
		h.wantAnswer("m", "one")
	}
}

func TestPromotingAndDeletingAModelAtOnce(t *testing.T) {
	h := newHouse(t)
	for i := range 20 {
		_, err := h.push("m", fmt.Sprint("content ", i), 0, true)
		h.must(err)
		v, err := h.push("m", "next", 0, false)
		h.must(err)
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
		h.wantAnswer("m", "not_found")
	}
}

func TestARequestInFlightOutlivesItsModel(t *testing.T) {
	h := newHouse(t)
	hook, running, proceed := gate("run", "old")
	h.backend.hook = hook
	_, err := h.push("m", "old", 0, true)
	h.must(err)
	answer := make(chan string)
	go func() { answer <- h.ask("m") }()
	<-running
	h.must(h.DeleteModel(t.Context(), "m"))
	h.wantAnswer("m", "not_found")
	_, err = h.push("m", "new", 0, true)
	h.must(err)
	h.wantAnswer("m", "new")
	proceed()
	if got := <-answer; got != "old" {
		t.Errorf("the request in flight got %q", got)
	}
	h.must(h.manager.Settle(t.Context(), "m"))
	if n := h.backend.loaded.Load(); n != 1 {
		t.Errorf("%d instances are loaded, want that of the new model", n)
	}
}

func TestAVersionThatFailsItsWarmUpGivesItsMemoryBack(t *testing.T) {
	h := newHouse(t)
	h.backend.hook = func(stage, content string) error {
		if stage == "run" && content == "faulty" {
			return errors.New("out of order")
		}
		return nil
	}
	_, err := h.push("m", "good", 0, true)
	h.must(err)
	_, err = h.Push(t.Context(), uploadOf("m", []struct{ path, content string }{
		{"model.onnx", "faulty"},
		{"config.pbtxt", `model_warmup { name: "w" batch_size: 1 inputs { key: "in" value { data_type: TYPE_STRING dims: 1 zero_data: true } } }`},
	}...), true)
	if err == nil {
		t.Error("a version that fails its warm-up went live")
	}
	h.wantAnswer("m", "good")
	h.must(h.manager.Settle(t.Context(), "m"))
	if n := h.backend.loaded.Load(); n != 1 {
		t.Errorf("%d instances are loaded, want that of the live version", n)
	}
}

package manager

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/edgewise-ai/edgewise"
)

// mortal is a servable whose process can end for good.
type mortal struct {
	fakeServable
	ended chan struct{}
	away  bool // its process is being started again
	out   bool // its process rests
}

func (m *mortal) Process() (edgewise.Process, bool) {
	select {
	case <-m.ended:
		return edgewise.Process{Reason: "its process died 5 times"}, true
	default:
	}
	if m.out {
		return edgewise.Process{Reason: "it has given its memory up", Resting: true}, true
	}
	if m.away {
		return edgewise.Process{Reason: "its process died and is being started again"}, true
	}
	return edgewise.Process{PID: 1}, true
}

func (m *mortal) Ended() <-chan struct{} { return m.ended }

func TestAVersionWhoseProcessHasEndedIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		var last *mortal
		m.config.Load = func(_ context.Context, v *edgewise.Version) (*Loaded, error) {
			last = &mortal{fakeServable: fakeServable{t: t, id: v.ID}, ended: make(chan struct{})}
			return &Loaded{Servable: last, Isolated: last}, nil
		}
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		h, err := m.acquire(edgewise.ModelID{Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		close(last.ended)
		synctest.Wait()
		if s := m.Statuses(); len(s) != 1 || s[0].State != edgewise.StateUnavailable || !s[0].Fallen ||
			s[0].Reason != "its process died 5 times" {
			t.Errorf("%+v", s)
		}
		for version, want := range map[int64]string{
			0: "Request for unknown model: 'm' has no available versions: version 1: its process died 5 times",
			1: "Request for unknown model: 'm' version 1 is not at ready state: its process died 5 times",
		} {
			_, err := m.acquire(edgewise.ModelID{Name: "m", Version: version})
			if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Unavailable {
				t.Errorf("version %d: %v", version, err)
			}
		}
		if m.Ready() || last.closed {
			t.Errorf("ready %v, closed %v", m.Ready(), last.closed)
		}
		h.release()
		synctest.Wait()
		if !last.closed {
			t.Error("its memory is not given back")
		}
		m.Want(live(1, 1)) // loads it again
		if err := m.Settle(t.Context(), "m"); err != nil || !m.Ready() {
			t.Errorf("after a new load: %v", err)
		}
		if s := m.Statuses(); s[0].Fallen || s[0].Reason != "" {
			t.Errorf("%+v", s)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAVersionWhoseProcessIsStartedAgainIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		process := &mortal{ended: make(chan struct{})}
		m.config.Load = func(_ context.Context, v *edgewise.Version) (*Loaded, error) {
			process.fakeServable = fakeServable{t: t, id: v.ID}
			return &Loaded{Servable: process, Isolated: process}, nil
		}
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		for _, away := range []bool{false, true, false} {
			process.away = away
			err := m.Present(edgewise.ModelID{Name: "m"})
			if m.Ready() == away || (err != nil) != away || away && edgewise.KindOf(err) != edgewise.Unavailable {
				t.Errorf("away %v: ready %v, %v", away, m.Ready(), err)
			}
		}
		process.out = true
		if err := m.Present(edgewise.ModelID{Name: "m"}); !m.Ready() || err != nil {
			t.Errorf("resting: ready %v, %v", m.Ready(), err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAVersionThatCanRunElsewhereIsLoadedAgainByItself loads on a device first and elsewhere after that one has failed.
func TestAVersionThatCanRunElsewhereIsLoadedAgainByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := start(t, Config{})
		var loads []*mortal
		hold := make(chan struct{})
		close(hold)
		m.config.Load = func(_ context.Context, v *edgewise.Version) (*Loaded, error) {
			<-hold
			loads = append(loads, &mortal{fakeServable: fakeServable{t: t, id: v.ID}, ended: make(chan struct{})})
			last := loads[len(loads)-1]
			return &Loaded{Servable: last, Isolated: last, Again: func() bool { return len(loads) == 1 }}, nil
		}
		m.Want(live(1, 1))
		if err := m.Settle(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		for n, want := range []edgewise.State{edgewise.StateReady, edgewise.StateUnavailable} {
			hold = make(chan struct{})
			close(loads[n].ended)
			synctest.Wait()
			if _, err := m.acquire(edgewise.ModelID{Name: "m"}); edgewise.KindOf(err) != edgewise.Unavailable ||
				!strings.Contains(err.Error(), "its process died 5 times") {
				t.Errorf("a request while it is loaded again: %v", err)
			}
			close(hold)
			synctest.Wait()
			if s := m.Statuses(); len(s) != 1 || s[0].State != want || !loads[n].closed {
				t.Errorf("after its process has ended %d times: %+v", n+1, s)
			}
		}
		if len(loads) != 2 {
			t.Errorf("%d loads, want 2", len(loads))
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

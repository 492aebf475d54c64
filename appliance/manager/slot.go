package manager

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// slot is where one version stands. Legal transitions, anything else is a bug:
//
//	         begin        loaded         drain           gone
//	(none) --------> Loading ----> Ready -------> Unloading ----> (none)
//	                    |            |                               ^
//	                    | failed     | fell      forget              |
//	                    +------------+-> Unavailable ----------------+
//
// A failed version is tried again by forgetting it while it is still wanted. A ready one falls when its process has
// ended for good.
type slot struct {
	version *edgewise.Version
	state   edgewise.State
	reason  string
	kind    edgewise.Kind // of the failure, when Unavailable
	since   time.Time
	took    time.Duration // its load
	bytes   int64         // of the memory for models; guarded by the manager's mutex
	fallen  bool          // Unavailable after it was Ready
	handle  *handle       // set when Ready or Unloading

	// draining: it is Unloading, and still answers the sequences that it has begun.
	draining bool

	// Of a ready version that another one is to replace under the same number: who is loading for that, and what was
	// refused for which reason. Of the other one: whom it replaces.
	next, replaces *slot
	refused        *edgewise.Version
	refusal        error
}

// to moves a slot along one of the legal transitions.
func (s *slot) to(state edgewise.State, now time.Time) {
	legal := s.state == edgewise.StateLoading && (state == edgewise.StateReady || state == edgewise.StateUnavailable) ||
		s.state == edgewise.StateReady && (state == edgewise.StateUnloading || state == edgewise.StateUnavailable)
	if !legal {
		panic(fmt.Sprintf("BUG: version %v goes from %v to %v", s.version.ID, s.state, state))
	}
	if state == edgewise.StateReady {
		s.took = now.Sub(s.since)
	}
	s.state, s.since = state, now
}

// follow takes over what is stored about a ready version now.
func (s *slot) follow(v *edgewise.Version) {
	s.version = v
	if resize := s.handle.loaded.Resize; resize != nil {
		resize(v.Model)
	}
}

// failure is why a version is Unavailable, in Triton's words, or could not be replaced; nil when there is nothing
// wrong.
func (s *slot) failure() error {
	if s.state != edgewise.StateUnavailable {
		return s.refusal
	}
	return &edgewise.Error{Op: "manager.load", Kind: s.kind, Model: s.version.ID, Err: fmt.Errorf(
		"load failed for model '%s': version %d is at UNAVAILABLE state: %s;", s.version.ID.Name, s.version.ID.Version,
		s.reason)}
}

// handle counts the users of a loaded version, so that it is closed after the last one.
type handle struct {
	id     edgewise.ModelID
	loaded *Loaded
	users  atomic.Int64 // the owner counts as one; 0: retired and unused
	idle   chan struct{}
}

func newHandle(id edgewise.ModelID, l *Loaded) *handle {
	h := &handle{id: id, loaded: l, idle: make(chan struct{})}
	h.users.Store(1)
	return h
}

// acquire adds a user, unless the handle has been retired and its last user has gone.
func (h *handle) acquire() bool {
	for {
		n := h.users.Load()
		if n == 0 {
			return false
		}
		if h.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *handle) release() {
	if h.users.Add(-1) == 0 {
		close(h.idle)
	}
}

// retire gives up the owner's use, waits for the other users and closes the version. It is called once.
func (h *handle) retire() error {
	h.release()
	<-h.idle
	return h.loaded.Close()
}

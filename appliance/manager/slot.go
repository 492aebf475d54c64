package manager

import (
	"context"
	"fmt"
	"slices"
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

	footprint Footprint // of its next start; guarded by that mutex, as what follows
	measured  bool      // it is what its process took at the most so far
	told      int64     // what Config.Measured was told of that
	before    int64     // bytes, when it gave its memory up
	demand    Demand

	resting bool      // it is giving its memory up, and stays Ready
	waking  bool      // it has taken memory, and its process is being started again
	turn    bool      // it may take memory for that, or has
	began   time.Time // when its turn came
	fallen  bool      // Unavailable after it was Ready, or Loading after that
	handle  *handle   // set when Ready or Unloading

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

// Loaded is a version that answers requests, with what else can be done with it. A field that is nil says that it
// cannot be done. A layer in front of the version replaces the fields that it changes and leaves the others, so that it
// hides none of them.
type Loaded struct {
	edgewise.Servable
	Isolated  edgewise.Isolated // tells of the process in which it runs
	Resident  edgewise.Resident // can give its memory up
	Pinned    bool              // does not, whoever needs it
	Sequences Sequencer         // keeps its sequences
	// returns n bytes, aligned to 64, for inputs of a later request; nil when none are free. The caller calls free once,
	// also after Close. Another process can write to the memory at any time: it may hold numbers, and nothing that is
	// checked before it is used
	Borrow  func(n int) (data []byte, free func())
	Resize  func(m *edgewise.Model)     // follows m's instance groups; returns at once and calls nobody back
	Check   func(context.Context) error // asks the version itself whether it is ready; nil: it does not know
	Again   func() bool                 // asked when its process has ended for good: load the version again? nil: no
	OnClose []func()                    // called in this order once the Servable has been closed
}

// Sequencer is a Servable that keeps sequences. Both methods are safe for concurrent use and come before Close.
type Sequencer interface {
	// Holds tells whether the sequence that id names has begun there and takes further requests.
	Holds(id edgewise.Sequence) bool
	// Drain refuses new sequences from now on and returns when those that are there have ended, or ctx's error.
	Drain(ctx context.Context) error
}

// Close closes the Servable and calls OnClose. It is called once.
func (l *Loaded) Close() error {
	err := l.Servable.Close()
	for _, f := range l.OnClose {
		f()
	}
	return err
}

// watch makes a version unavailable when the process in which it runs has ended for good.
func (m *Manager) watch(name string, s *slot, h *handle) {
	isolated := h.loaded.Isolated
	if isolated == nil || isolated.Ended() == nil {
		return
	}
	m.work.Go(func() {
		select {
		case <-h.idle: // it is being unloaded
		case <-isolated.Ended():
			p, _ := isolated.Process()
			m.fall(name, s, p.Reason)
		}
	})
}

// fall takes a version out of service and gives its memory back, once its last request has been answered. One that can
// do without what has failed is loaded again then.
func (m *Manager) fall(name string, s *slot, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.state != edgewise.StateReady {
		return
	}
	h := s.handle
	s.to(edgewise.StateUnavailable, time.Now())
	s.reason, s.kind, s.fallen, s.handle = reason, edgewise.Unavailable, true, nil
	m.config.Logger.Error("version stopped working", "model", name, "version", s.version.ID.Version, "reason", reason)
	m.reconcile(name, m.models[name])
	m.work.Go(func() {
		if err := h.retire(); err != nil {
			m.config.Logger.Error("version did not close cleanly", "model", name, "version", s.version.ID.Version, "error", err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		s.bytes = 0
		mod, number := m.models[name], s.version.ID.Version
		if !m.closed && mod != nil && mod.slots[number] == s && h.loaded.Again != nil && h.loaded.Again() {
			mod.again(number)
			m.reconcile(name, mod)
			return
		}
		m.publish()
	})
}

// again makes a version that is unavailable be loaded once more. Until that is done requests are told why it was not
// ready, when it stopped working by itself.
func (mod *model) again(number int64) {
	if s := mod.slots[number]; s.fallen {
		mod.fell[number] = "it is being loaded again: " + s.reason
	}
	delete(mod.slots, number)
}

// fallen returns the status of the highest version of a model that stopped working, if there is one.
func (r *route) fallen() (status edgewise.Status, ok bool) {
	for _, t := range r.versions {
		if t.status.Fallen && t.status.ID.Version > status.ID.Version {
			status, ok = t.status, true
		}
	}
	return status, ok
}

// renew brings the ready versions of a model to what is stored under their numbers now: in place where that is enough,
// otherwise by loading a replacement beside the version, which goes on answering until then. m.mu is held.
func (m *Manager) renew(name string, mod *model) {
	wanted := m.snapshot(name, mod).wanted()
	for number, s := range mod.slots {
		v := mod.record.Version(number)
		switch {
		case v == nil || v == s.version || s.state != edgewise.StateReady || !slices.Contains(wanted, number):
		case m.config.Replaces == nil || !m.config.Replaces(s.version, v):
			s.follow(v)
		case s.next == nil && s.refused != v:
			m.loadBeside(name, mod, s, v)
		}
	}
}

// loadBeside begins to load what is to replace a ready version under its number. m.mu is held.
func (m *Manager) loadBeside(name string, mod *model, s *slot, v *edgewise.Version) {
	next := &slot{version: v, state: edgewise.StateLoading, since: time.Now(), replaces: s}
	s.next, s.refused, s.refusal = next, nil, nil
	mod.beside[next] = true
	m.work.Go(func() { m.load(name, next) })
}

// Renew loads a ready version once more, as it is stored, beside the one that goes on answering until then. It returns at
// once; see Settle. Error: Unavailable for a version that is not ready, Conflict for one that is being replaced already.
func (m *Manager) Renew(id edgewise.ModelID) error {
	const op = "manager.Renew"
	m.mu.Lock()
	defer m.mu.Unlock()
	mod := m.models[id.Name]
	if mod == nil || m.closed || mod.slots[id.Version] == nil || mod.slots[id.Version].state != edgewise.StateReady {
		return edgewise.Errorf(op, edgewise.Unavailable, "model %v is not ready", id)
	}
	s := mod.slots[id.Version]
	if s.next != nil {
		return edgewise.Errorf(op, edgewise.Conflict, "model %v is being loaded again already", id)
	}
	m.loadBeside(id.Name, mod, s, s.version)
	m.publish()
	return nil
}

// renewed puts a replacement that has been loaded into its place, or leaves the old version there when it could not be.
// m.mu is held.
func (m *Manager) renewed(name string, s *slot, loaded *Loaded, err error) {
	mod, old, number := m.models[name], s.replaces, s.version.ID.Version
	delete(mod.beside, s)
	old.next, s.replaces = nil, nil
	if err != nil {
		m.releaseParts(s.version)
		s.bytes = 0
		old.refused = s.version
		old.refusal = &edgewise.Error{Op: "manager.load", Kind: edgewise.KindOf(err), Model: s.version.ID, Err: fmt.Errorf(
			"load failed for model '%s': version %d is at UNAVAILABLE state: %w;", name, number, err)}
		m.config.Logger.Error("version failed to load and the one before it goes on serving", "model", name, "version",
			number, "reason", err)
		m.reconcile(name, mod)
		return
	}
	s.to(edgewise.StateReady, time.Now())
	s.handle = newHandle(s.version.ID, loaded)
	m.settleMemory(name, s)
	leaver := old
	if mod.slots[number] == old && old.state != edgewise.StateUnloading {
		mod.slots[number] = s
		m.watch(name, s, s.handle)
		m.config.Logger.Info("version replaced", "model", name, "version", number)
	} else { // nobody waits for it any more
		leaver = s
	}
	drained := leaver.state == edgewise.StateReady // otherwise it has stopped working, and is closed
	if drained {
		leaver.to(edgewise.StateUnloading, time.Now())
		leaver.draining = m.drains(leaver)
		mod.beside[leaver] = true
	}
	m.reconcile(name, mod)
	if drained { // only now that no reader of the table finds it any more
		m.work.Go(func() { m.unload(name, leaver) })
	}
}

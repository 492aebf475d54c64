package manager

import (
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
)

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
			s.next = &slot{version: v, state: edgewise.StateLoading, since: time.Now(), replaces: s}
			next := s.next
			mod.beside[next] = true
			m.work.Go(func() { m.load(name, next) })
		}
	}
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

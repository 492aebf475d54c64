package manager

import (
	"time"

	"github.com/edgewise-ai/edgewise"
)

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

// fall takes a version out of service and gives its memory back, once its last request has been answered.
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
		m.publish()
	})
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

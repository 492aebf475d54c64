package manager

import (
	"context"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Beside is a version that was loaded for one caller: no other request finds it.
type Beside struct {
	edgewise.Servable
	manager *Manager
	slot    *slot
}

// Beside loads v beside what serves, within the bounds of all loads, for the caller alone, who closes it. It may have the
// number of a version that serves, with another configuration. Errors: those of a load; Unavailable for a model that the
// manager does not know, or after Close.
func (m *Manager) Beside(ctx context.Context, v *edgewise.Version) (*Beside, error) {
	name := v.ID.Name
	s := &slot{version: v, state: edgewise.StateLoading, since: time.Now()}
	m.mu.Lock()
	mod := m.models[name]
	if mod == nil || m.closed {
		m.mu.Unlock()
		return nil, edgewise.Errorf("manager.Beside", edgewise.Unavailable, "model %v is not served", v.ID)
	}
	mod.beside[s] = true
	m.work.Add(1)
	m.mu.Unlock()
	loaded, err := m.loadInTurn(s)
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
		_ = loaded.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.leave(name, s)
		return nil, err
	}
	s.to(edgewise.StateReady, time.Now())
	s.handle = newHandle(v.ID, loaded)
	if r := loaded.Resident; r != nil && m.config.Memory > 0 {
		m.taken(s, r.Takes)
	}
	return &Beside{loaded.Servable, m, s}, nil
}

// AllocBody returns n bytes for inputs of a later request; nil when none are free. See Loaded.Borrow.
func (b *Beside) AllocBody(n int) (data []byte, free func()) {
	if borrow := b.slot.handle.loaded.Borrow; borrow != nil {
		return borrow(n)
	}
	return nil, nil
}

// Takes returns what the version has for itself in memory, in bytes; 0 where it has no process of its own.
func (b *Beside) Takes() (now int64) {
	if r := b.slot.handle.loaded.Resident; r != nil {
		now, _ = r.Takes()
	}
	return now
}

// Close unloads the version. It is called once.
func (b *Beside) Close() error {
	err := b.slot.handle.retire()
	b.manager.mu.Lock()
	defer b.manager.mu.Unlock()
	b.manager.leave(b.slot.version.ID.Name, b.slot)
	return err
}

// leave forgets a version that was loaded beside the others. m.mu is held.
func (m *Manager) leave(name string, s *slot) {
	s.bytes = 0
	mod := m.models[name]
	delete(mod.beside, s)
	m.reconcile(name, mod)
	m.work.Done()
}

package manager

import (
	"context"
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Settle waits until nothing is loading or unloading for a model. It returns the first failure among the versions that
// are wanted, by number, with its kind; or ctx's error.
func (m *Manager) Settle(ctx context.Context, name string) error {
	for {
		settled, changed, err := m.settled(name)
		if settled {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("model %q is still loading or unloading: %w", name, ctx.Err())
		}
	}
}

// Await waits until one version is ready and returns why it is not going to be, with the kind of its failure.
func (m *Manager) Await(ctx context.Context, id edgewise.ModelID) error {
	for {
		m.mu.Lock()
		changed, s := m.changed, (*slot)(nil)
		if mod := m.models[id.Name]; mod != nil {
			s = mod.slots[id.Version]
		}
		state, failure := edgewise.StateUnloading, error(nil)
		if s != nil {
			state, failure = s.state, s.failure()
		}
		m.mu.Unlock()
		switch {
		case s == nil:
			return edgewise.Errorf("manager.Await", edgewise.Unavailable, "model %v is not to be loaded", id)
		case state == edgewise.StateReady:
			return nil
		case state == edgewise.StateUnavailable:
			return failure
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("model %v is still loading: %w", id, ctx.Err())
		}
	}
}

func (m *Manager) settled(name string) (settled bool, changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mod := m.models[name]
	if mod == nil {
		return true, nil, nil
	}
	for _, number := range m.snapshot(name, mod).ordered() {
		s := mod.slots[number]
		switch s.state {
		case edgewise.StateLoading, edgewise.StateUnloading:
			return false, m.changed, nil
		}
		if s.next != nil {
			return false, m.changed, nil
		}
		if err == nil {
			err = s.failure()
		}
	}
	return true, nil, err
}

// Ready tells whether every wanted version of every model is ready, and its process is there.
func (m *Manager) Ready() bool {
	wanted, ready := m.wanted()
	return ready && !slices.ContainsFunc(wanted, func(id edgewise.ModelID) bool { return m.Present(id) != nil })
}

// wanted returns the versions that are to be ready, and tells whether all are.
func (m *Manager) wanted() (list []edgewise.ModelID, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, mod := range m.models {
		for _, number := range m.snapshot(name, mod).aspired {
			if s := mod.slots[number]; s == nil || s.state != edgewise.StateReady {
				return nil, false
			}
			list = append(list, edgewise.ModelID{Name: name, Version: number})
		}
	}
	return list, !m.closed
}

// Present returns nil unless the process of a ready version has ended and is being started again. A version that
// gave its memory up is present, because the next request loads it. Error: Unavailable, with the reason.
func (m *Manager) Present(id edgewise.ModelID) error {
	h, err := m.acquire(id)
	if err != nil {
		return nil // it is not ready, which others tell
	}
	defer h.release()
	if h.loaded.Isolated == nil {
		return nil
	}
	if p, apart := h.loaded.Isolated.Process(); apart && p.PID == 0 && !p.Resting {
		return edgewise.Errorf("manager.Present", edgewise.Unavailable, "model %v is not ready: %s", id, p.Reason)
	}
	if h.loaded.Check != nil {
		return h.loaded.Check(context.Background())
	}
	return nil
}

// Close unloads everything: it takes no new wishes, lets the requests in flight end, and returns when all memory is
// given back or ctx ends, then naming what is still in use.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	for name, mod := range m.models {
		mod.record = &edgewise.Record{Name: name}
		mod.trial = nil
		m.reconcile(name, mod)
	}
	m.mu.Unlock()
	m.cancel()
	done := make(chan struct{})
	go func() {
		m.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		var names []string
		for _, s := range m.Statuses() {
			names = append(names, s.ID.String())
		}
		return edgewise.Errorf("manager.Close", edgewise.Deadline, "versions still in use: %v", names)
	}
}

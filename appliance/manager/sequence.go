package manager

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// drains tells whether a version that is to be unloaded goes on with its sequences. m.mu is held.
func (m *Manager) drains(s *slot) bool {
	return s.handle.loaded.Sequences != nil && m.config.SequenceDrain > 0 && !m.closed
}

// stepAside makes room for versions that are wanted again while they end their sequences: they are loaded again beside
// themselves, which takes what begins then, and nobody waits for the sequences. m.mu is held.
func (m *Manager) stepAside(name string, mod *model) {
	for _, number := range m.snapshot(name, mod).wanted() {
		if s := mod.slots[number]; s != nil && s.draining {
			delete(mod.slots, number)
			mod.beside[s] = true
		}
	}
}

// drain adds a version that goes on with its sequences, and no other.
func (r *route) drain(s *slot) {
	if s.draining {
		r.draining = append(r.draining, &target{version: s.version, handle: s.handle})
	}
}

// drain lets a version that is being unloaded end its sequences. Those that are there when its time is over, or when
// everything ends, find no version that knows them.
func (m *Manager) drain(s *slot) {
	m.mu.Lock()
	draining := s.draining
	m.mu.Unlock()
	if !draining {
		return
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.config.SequenceDrain)
	defer cancel()
	if err := s.handle.loaded.Sequences.Drain(ctx); err != nil {
		m.config.Logger.Warn("version is unloaded with sequences in progress", "version", s.version.ID.String(), "waited",
			m.config.SequenceDrain.String())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.draining = false
	m.publish()
}

// continuing returns the handle, in use, of a version that is being unloaded and has begun the sequence that req goes
// on with; nil when req is for those that are ready. A sequence that was started again is the new version's.
func (m *Manager) continuing(req *edgewise.Request) *handle {
	if !req.Sequence.Active() || req.Sequence.Start {
		return nil
	}
	r := (*m.routes.Load())[req.Model.Name]
	if r == nil || len(r.draining) == 0 {
		return nil
	}
	if r.serving != nil && req.Model.Version == 0 && holds(r.serving.handle, req.Sequence) {
		return nil
	}
	for _, t := range r.draining {
		if (req.Model.Version == 0 || req.Model.Version == t.version.ID.Version) && holds(t.handle, req.Sequence) &&
			t.handle.acquire() {
			return t.handle
		}
	}
	return nil
}

func holds(h *handle, s edgewise.Sequence) bool {
	return h != nil && h.loaded.Sequences != nil && h.loaded.Sequences.Holds(s)
}

// DrainSequences makes every loaded version refuse new sequences and waits for those in progress to end. Error: ctx's,
// when there are some left.
func (m *Manager) DrainSequences(ctx context.Context) error {
	var work sync.WaitGroup
	var left atomic.Bool
	for _, r := range *m.routes.Load() {
		for _, t := range r.versions {
			if t.handle == nil || !t.handle.acquire() {
				continue
			}
			sequences := t.handle.loaded.Sequences
			if sequences == nil {
				t.handle.release()
				continue
			}
			work.Go(func() {
				defer t.handle.release()
				if sequences.Drain(ctx) != nil {
					left.Store(true)
				}
			})
		}
	}
	work.Wait()
	if left.Load() {
		return ctx.Err()
	}
	return nil
}

package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Footprint is what a version takes while it is loaded.
type Footprint struct {
	Bytes  int64 // the most that it takes while it is being loaded
	Stated bool  // by its author: it counts for that much ever after, whatever it takes
	// Gap says what is done when a version is to take another one's place and there is too little memory for both: the
	// old one is unloaded first, and nothing answers until the new one is live. Otherwise the new one is refused.
	Gap bool
}

// reserve takes the memory for a version, waiting for versions that are being loaded or unloaded, or that give theirs up
// for it. Errors: Exhausted, ctx's, those of Config.Footprint.
func (m *Manager) reserve(ctx context.Context, name string, s *slot) error {
	if m.config.Memory <= 0 || m.config.Footprint == nil {
		return nil
	}
	f, err := m.config.Footprint(ctx, s.version)
	if err != nil {
		return err
	}
	m.mu.Lock()
	s.footprint = f
	m.mu.Unlock()
	return m.take(ctx, name, s, f)
}

// take is reserve for a known footprint. A ready version whose process is to be started again waits for its turn first.
func (m *Manager) take(ctx context.Context, name string, s *slot, f Footprint) error {
	defer m.yield(s)
	for {
		changed, err := m.claim(name, s, f)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-time.After(longStart):
		case <-ctx.Done():
			return fmt.Errorf("model %v waits for the memory of other versions: %w", s.version.ID, ctx.Err())
		}
	}
}

// claim takes the memory, refuses it, or returns what to wait for before it is asked again.
func (m *Manager) claim(name string, s *slot, f Footprint) (changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mod := m.models[name]
	used, leaving := m.memory()
	free := m.config.Memory - used
	again := s.state == edgewise.StateReady
	switch {
	case again && !m.turn(s, time.Now()): // what waits for its turn leaves the memory to others
		return m.changed, nil
	case f.Bytes <= free:
		s.bytes, s.waking = f.Bytes, again
		return nil, nil
	case f.Bytes <= free+leaving:
		return m.changed, nil
	}
	if others := m.restable(s); f.Bytes <= free+leaving+sum(others) {
		m.rest(others, f.Bytes-free-leaving)
		return m.changed, nil
	} else if m.loading(s) { // what that really takes may be less, and it may rest
		return m.changed, nil
	}
	switch {
	case mod == nil:
	case f.Gap && mod.successor == s.version.ID.Version && f.Bytes <= free+leaving+m.liveBytes(name, mod):
		mod.alone = s.version.ID.Version
		m.config.Logger.Warn("too little memory for two versions: the old one is unloaded before the new one is loaded",
			"model", name, "version", mod.alone)
		m.reconcile(name, mod)
		return m.changed, nil
	}
	if mod != nil && f.Gap && s.version.ID.Version == mod.record.Label(edgewise.LiveLabel) && f.Bytes <= free+leaving+mod.leavingBytes() {
		mod.leaving = nil
		m.config.Logger.Warn("too little memory for two versions: the old one is unloaded before the new one is loaded",
			"model", name, "version", s.version.ID.Version)
		m.reconcile(name, mod)
		return m.changed, nil
	}
	return nil, edgewise.Errorf("manager.load", edgewise.Exhausted,
		"it takes about %d bytes of memory, and %d of the %d bytes for models are free", f.Bytes, max(free+leaving, 0),
		m.config.Memory)
}

// memory returns what all versions take, and what of it is being given back. m.mu is held.
func (m *Manager) memory() (used, leaving int64) {
	count := func(s *slot) {
		used += s.bytes
		if s.state == edgewise.StateUnloading || s.resting {
			leaving += s.bytes
		}
	}
	for _, mod := range m.models {
		for _, s := range mod.slots {
			count(s)
		}
		for s := range mod.beside {
			count(s)
		}
	}
	return used, leaving
}

func sum(list []*slot) (bytes int64) {
	for _, s := range list {
		bytes += s.bytes
	}
	return bytes
}

// loading tells whether a version other than s has taken memory and is being started. m.mu is held.
func (m *Manager) loading(s *slot) bool {
	starts := func(other *slot) bool {
		return other != s && other.bytes > 0 && (other.waking || other.state == edgewise.StateLoading)
	}
	for _, mod := range m.models {
		for _, other := range mod.slots {
			if starts(other) {
				return true
			}
		}
		for other := range mod.beside {
			if starts(other) {
				return true
			}
		}
	}
	return false
}

// leavingBytes is what unloading the versions that are leaving would bring. m.mu is held.
func (mod *model) leavingBytes() (bytes int64) {
	for _, number := range mod.leaving {
		if s := mod.slots[number]; s != nil && s.state == edgewise.StateReady {
			bytes += s.bytes
		}
	}
	return bytes
}

// liveBytes is what unloading the live version would bring: nothing when an ensemble needs it. m.mu is held.
func (m *Manager) liveBytes(name string, mod *model) int64 {
	live := mod.record.Label(edgewise.LiveLabel)
	s := mod.slots[live]
	if s == nil || s.state != edgewise.StateReady || slices.Contains(m.held(name), live) {
		return 0
	}
	return s.bytes
}

// noteGap keeps and reports for how long a model had no version because there was no memory for two. m.mu is held.
func (m *Manager) noteGap(name string, mod *model, now time.Time) {
	switch {
	case mod.serving == 0 && mod.alone != 0 && mod.gap.IsZero():
		mod.gap = now
	case mod.serving != 0 && !mod.gap.IsZero():
		m.config.Logger.Warn("the model had no version while one took the place of another", "model", name, "gap",
			now.Sub(mod.gap).Round(time.Millisecond).String())
		mod.gap = time.Time{}
	}
}

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
	Bytes int64
	// Gap says what is done when a version is to take another one's place and there is too little memory for both: the
	// old one is unloaded first, and nothing answers until the new one is live. Otherwise the new one is refused.
	Gap bool
}

// reserve takes the memory for a version, waiting for versions that are being unloaded. Errors: Exhausted, ctx's, those
// of Config.Footprint.
func (m *Manager) reserve(ctx context.Context, name string, s *slot) error {
	if m.config.Memory <= 0 || m.config.Footprint == nil {
		return nil
	}
	f, err := m.config.Footprint(ctx, s.version)
	if err != nil {
		return err
	}
	for {
		changed, err := m.claim(name, s, f)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("model %v waits for the memory of versions that are being unloaded: %w", s.version.ID, ctx.Err())
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
	switch {
	case f.Bytes <= free:
		s.bytes = f.Bytes
		return nil, nil
	case f.Bytes <= free+leaving:
		return m.changed, nil
	case f.Gap && mod.successor == s.version.ID.Version && f.Bytes <= free+leaving+m.liveBytes(name, mod):
		mod.alone = s.version.ID.Version
		m.config.Logger.Warn("too little memory for two versions: the old one is unloaded before the new one is loaded",
			"model", name, "version", mod.alone)
		m.reconcile(name, mod)
		return m.changed, nil
	}
	if f.Gap && s.version.ID.Version == mod.record.Label(edgewise.LiveLabel) && f.Bytes <= free+leaving+mod.leavingBytes() {
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
		if s.state == edgewise.StateUnloading {
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

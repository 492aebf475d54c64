package manager

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// An ensemble holds the versions that it pins: from before it is loaded until after it was closed they are wanted,
// beside whatever labels and policies want. A held version answers requests that name it. Versions pin only what was
// stored before them, so holds cannot form a circle.

// holdParts loads what v pins and waits for it. Whatever it returns, releaseParts is due.
func (m *Manager) holdParts(v *edgewise.Version) error {
	pins := v.Model.Pins()
	if len(pins) == 0 {
		return nil
	}
	m.mu.Lock()
	for _, id := range pins {
		m.holds[id]++
		mod := m.models[id.Name]
		if mod == nil {
			continue // Await will say so
		}
		if s := mod.slots[id.Version]; s != nil && s.state == edgewise.StateUnavailable {
			mod.again(id.Version)
		}
		m.reconcile(id.Name, mod)
	}
	m.mu.Unlock()
	for _, id := range pins {
		if err := m.Await(m.ctx, id); err != nil {
			return edgewise.Errorf("manager.load", edgewise.KindOf(err), "in ensemble '%s', %w", v.ID.Name, err)
		}
	}
	return nil
}

// releaseParts lets go of what v pins; a version that nothing else wants is unloaded. m.mu is held.
func (m *Manager) releaseParts(v *edgewise.Version) {
	for _, id := range v.Model.Pins() {
		if m.holds[id]--; m.holds[id] == 0 {
			delete(m.holds, id)
		}
		if mod := m.models[id.Name]; mod != nil {
			m.reconcile(id.Name, mod)
		}
	}
}

// held lists the versions of a model that ensembles hold, ascending. m.mu is held.
func (m *Manager) held(name string) []int64 {
	var numbers []int64
	for id := range m.holds {
		if id.Name == name {
			numbers = append(numbers, id.Version)
		}
	}
	slices.Sort(numbers)
	return numbers
}

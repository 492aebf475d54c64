package manager

import (
	"slices"
	"time"
)

// Processes are started again in the order of the requests that need them, Config.Concurrency of them at a time. Only a
// version that has its turn may take memory: otherwise small ones would take what a large one waits for.

// longStart is for how long one turn, the wait for memory and the start of a process, keeps the others waiting.
const longStart = 10 * time.Second

// turn gives a version its turn, or tells that it is not there yet. m.mu is held.
func (m *Manager) turn(s *slot, now time.Time) bool {
	if s.turn {
		return true
	}
	before := slices.Index(m.line, s)
	if before < 0 {
		before = len(m.line)
		m.line = append(m.line, s)
	}
	if before+m.starting(now) >= cap(m.loads) {
		return false
	}
	m.line = slices.Delete(m.line, before, before+1)
	s.turn, s.began = true, now
	return true
}

// yield ends the wait of a version. One that has taken memory keeps its turn until its process has been started.
func (m *Manager) yield(s *slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.line)
	m.line = slices.DeleteFunc(m.line, func(other *slot) bool { return other == s })
	if left := s.turn && !s.waking; left || len(m.line) != before {
		s.turn = false
		m.publish() // the next version may have its turn
	}
}

// starting counts the turns in progress, but for those that take long. m.mu is held.
func (m *Manager) starting(now time.Time) (n int) {
	for _, mod := range m.models {
		for _, s := range mod.slots {
			if s.turn && now.Sub(s.began) < longStart {
				n++
			}
		}
	}
	return n
}

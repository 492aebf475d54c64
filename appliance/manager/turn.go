package manager

import (
	"slices"
	"time"
)

// Processes are started again in the order in which requests asked for that, Config.Concurrency of them at a time. Whose
// turn it is takes memory: so that many small ones do not keep a large one waiting, that takes what is given up next.

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

// yield ends a wait: with the memory, a turn goes on until the process has been started.
func (m *Manager) yield(s *slot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.line)
	m.line = slices.DeleteFunc(m.line, func(other *slot) bool { return other == s })
	if left := s.turn && !s.waking; left || len(m.line) != before {
		s.turn = false
		m.publish() // it is another one's turn
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

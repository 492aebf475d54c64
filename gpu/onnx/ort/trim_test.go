package ort

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// unusedMemory is an arena as the trimmer sees it: runs take it, and shrinking gives it back.
type unusedMemory struct {
	mu      sync.Mutex
	unused  int64
	shrinks []time.Duration // since the start
	looks   int
	start   time.Time
}

func (m *unusedMemory) trimmer() *trimmer {
	m.start = time.Now()
	return &trimmer{
		unused: func() (int64, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.looks++
			return m.unused, nil
		},
		shrink: func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.unused = 0
			m.shrinks = append(m.shrinks, time.Since(m.start))
			return nil
		},
	}
}

func TestUnusedMemoryIsGivenBackAfterTheLastRun(t *testing.T) {
	for name, test := range map[string]struct {
		unused  int64
		shrinks int
	}{"little": {keptUnused, 0}, "much": {keptUnused + 1, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &unusedMemory{}
				trimmer := m.trimmer()
				m.unused = test.unused
				trimmer.ran()
				time.Sleep(2*trimInterval + 1)
				synctest.Wait()
				if len(m.shrinks) != test.shrinks {
					t.Errorf("shrunk %d times, want %d", len(m.shrinks), test.shrinks)
				}
				looks := m.looks
				time.Sleep(time.Hour)
				synctest.Wait()
				if m.looks != looks {
					t.Errorf("looked at %d times while nothing ran", m.looks-looks)
				}
			})
		})
	}
}

// TestMemoryThatRunsTakeAgainIsGivenBackRarely runs a model that needs the memory each time, for an hour, and then one
// that does not.
func TestMemoryThatRunsTakeAgainIsGivenBackRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &unusedMemory{}
		trimmer := m.trimmer()
		run := func(need int64, during time.Duration) {
			for range int(during / time.Second) {
				m.mu.Lock()
				m.unused = max(m.unused, need)
				m.mu.Unlock()
				trimmer.ran()
				time.Sleep(time.Second)
				synctest.Wait()
			}
		}
		run(10*keptUnused, time.Hour)
		if n := len(m.shrinks); n < 10 || n > 20 {
			t.Errorf("shrunk %d times within an hour: %v", n, m.shrinks)
		}
		run(0, (maxTrimWait+2)*trimInterval)
		if m.unused != 0 {
			t.Error("memory that small runs do not need is kept")
		}
	})
}

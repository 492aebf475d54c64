package ensemble

import (
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// meter adds up what happens to requests and steps.
type meter struct {
	mu    sync.Mutex // guards total, its Steps included
	total edgewise.Statistics
}

func newMeter(g *graph) *meter {
	m := &meter{}
	for i := range g.steps {
		m.total.Steps = append(m.total.Steps, edgewise.StepStatistics{Model: g.steps[i].id})
	}
	return m
}

func (m *meter) succeeded(took time.Duration, t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Executed(t)
	m.total.Succeeded(took, t)
}

func (m *meter) failed(took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Fail.Add(took)
	m.total.Failures[edgewise.KindOf(err)]++
}

// step changes the figures of one step.
func (m *meter) step(i int, change func(*edgewise.StepStatistics)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.total.Steps[i])
}

func (m *meter) read() edgewise.Statistics {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.total
	stats.Steps, stats.Batches = slices.Clone(m.total.Steps), slices.Clone(m.total.Batches)
	return stats
}

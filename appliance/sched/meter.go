package sched

import (
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Meter adds up what happens to requests. It is safe for concurrent use.
type Meter struct {
	mu    sync.Mutex // guards total
	total edgewise.Statistics
}

// NewMeter makes a Meter that has measured nothing.
func NewMeter() *Meter { return &Meter{} }

// Count counts a request that began at start by how it ended. Both nil: it panicked, and is not counted.
func (m *Meter) Count(start time.Time, response *edgewise.Response, err error) {
	switch {
	case err != nil:
		m.failed(time.Since(start), edgewise.KindOf(err))
	case response != nil:
		m.succeeded(time.Since(start), response.Timing)
	}
}

// executed counts one run of a batch, which ended at a time.
func (m *Meter) executed(at time.Time, t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Executed(at, t)
}

// succeeded counts one request that was answered.
func (m *Meter) succeeded(took time.Duration, t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Succeeded(took, t)
}

// failed counts one request that was not.
func (m *Meter) failed(took time.Duration, kind edgewise.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Fail.Add(took)
	m.total.Failures[kind]++
}

// responded counts a response of a decoupled model; see edgewise.Statistics.
func (m *Meter) responded(
	place int, made, sent time.Duration, how func(*edgewise.ResponseStatistics) *edgewise.Duration,
) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Responded(place, made, sent, how)
}

// Reset forgets everything measured so far.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = edgewise.Statistics{}
}

// Read returns a copy, batches ascending by size.
func (m *Meter) Read() edgewise.Statistics {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.total
	stats.Batches, stats.Responses = slices.Clone(m.total.Batches), slices.Clone(m.total.Responses)
	return stats
}

package sched

import (
	"context"
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

// Around lets infer answer a request, and counts what becomes of it.
func (m *Meter) Around(
	ctx context.Context, req *edgewise.Request,
	infer func(context.Context, *edgewise.Request, time.Time) (*edgewise.Response, error),
) (*edgewise.Response, error) {
	start := req.Came()
	response, err := infer(ctx, req, start)
	if err != nil {
		m.failed(time.Since(start), edgewise.KindOf(err))
		return nil, err
	}
	m.succeeded(time.Since(start), response.Timing)
	return response, nil
}

// executed counts one run of a batch.
func (m *Meter) executed(t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Executed(t)
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
	stats.Batches = slices.Clone(m.total.Batches)
	return stats
}

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
	mu      sync.Mutex // guards what follows
	total   edgewise.Statistics
	batches map[uint64]*edgewise.BatchStatistics
}

// NewMeter makes a Meter that has measured nothing.
func NewMeter() *Meter { return &Meter{batches: map[uint64]*edgewise.BatchStatistics{}} }

// Around lets infer answer a request, and counts what becomes of it.
func (m *Meter) Around(
	ctx context.Context, req *edgewise.Request,
	infer func(context.Context, *edgewise.Request, time.Time) (*edgewise.Response, error),
) (*edgewise.Response, error) {
	start := req.Came()
	response, err := infer(ctx, req, start)
	if err != nil {
		m.failed(time.Since(start), edgewise.FailureReasonOf(edgewise.KindOf(err)))
		return nil, err
	}
	m.succeeded(time.Since(start), response.Timing)
	return response, nil
}

// executed counts one run of a batch.
func (m *Meter) executed(batch int, t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.LastInference = time.Now()
	m.total.ExecutionCount++
	m.total.InferenceCount += uint64(batch)
	b := m.batches[uint64(batch)]
	if b == nil {
		b = &edgewise.BatchStatistics{Size: uint64(batch)}
		m.batches[uint64(batch)] = b
	}
	b.ComputeInput.Add(t.Input)
	b.ComputeInfer.Add(t.Infer)
	b.ComputeOutput.Add(t.Output)
}

// succeeded counts one request that was answered.
func (m *Meter) succeeded(took time.Duration, t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Success.Add(took)
	m.total.Queue.Add(t.Queue)
	m.total.ComputeInput.Add(t.Input)
	m.total.ComputeInfer.Add(t.Infer)
	m.total.ComputeOutput.Add(t.Output)
}

// failed counts one request that was not.
func (m *Meter) failed(took time.Duration, reason edgewise.FailureReason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Fail.Add(took)
	m.total.Failures[reason]++
}

// Reset forgets everything measured so far.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = edgewise.Statistics{}
	clear(m.batches)
}

// Read returns a copy, batches ascending by size.
func (m *Meter) Read() edgewise.Statistics {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.total
	for _, b := range m.batches {
		stats.Batches = append(stats.Batches, *b)
	}
	slices.SortFunc(stats.Batches, func(a, b edgewise.BatchStatistics) int { return int(a.Size) - int(b.Size) })
	return stats
}

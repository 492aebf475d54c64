package sched

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// meter adds up what happens to requests.
type meter struct {
	mu      sync.Mutex // guards what follows
	total   edgewise.Statistics
	batches map[uint64]*edgewise.BatchStatistics
}

func newMeter() *meter { return &meter{batches: map[uint64]*edgewise.BatchStatistics{}} }

// around lets infer answer a request, and counts what becomes of it.
func (m *meter) around(ctx context.Context, req *edgewise.Request, infer func(context.Context, *edgewise.Request, time.Time) (*edgewise.Response, error)) (*edgewise.Response, error) {
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
func (m *meter) executed(batch int, t edgewise.Timing) {
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
	add(&b.ComputeInput, t.Input)
	add(&b.ComputeInfer, t.Infer)
	add(&b.ComputeOutput, t.Output)
}

// succeeded counts one request that was answered.
func (m *meter) succeeded(took time.Duration, t edgewise.Timing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	add(&m.total.Success, took)
	add(&m.total.Queue, t.Queue)
	add(&m.total.ComputeInput, t.Input)
	add(&m.total.ComputeInfer, t.Infer)
	add(&m.total.ComputeOutput, t.Output)
}

// failed counts one request that was not.
func (m *meter) failed(took time.Duration, reason edgewise.FailureReason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	add(&m.total.Fail, took)
	m.total.Failures[reason]++
}

// reset forgets everything measured so far.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = edgewise.Statistics{}
	clear(m.batches)
}

// read returns a copy, batches ascending by size.
func (m *meter) read() edgewise.Statistics {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := m.total
	for _, b := range m.batches {
		stats.Batches = append(stats.Batches, *b)
	}
	slices.SortFunc(stats.Batches, func(a, b edgewise.BatchStatistics) int { return int(a.Size) - int(b.Size) })
	return stats
}

func add(d *edgewise.Duration, took time.Duration) {
	d.Count++
	d.Total += took
}

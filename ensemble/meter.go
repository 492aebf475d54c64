package ensemble

import (
	"cmp"
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
	m.total.LastInference = time.Now()
	m.total.ExecutionCount++
	m.total.InferenceCount += uint64(t.Batch)
	m.total.Success.Add(took)
	m.total.Queue.Add(t.Queue)
	m.total.ComputeInput.Add(t.Input)
	m.total.ComputeInfer.Add(t.Infer)
	m.total.ComputeOutput.Add(t.Output)
	b := m.batch(uint64(t.Batch))
	b.ComputeInput.Add(t.Input)
	b.ComputeInfer.Add(t.Infer)
	b.ComputeOutput.Add(t.Output)
}

// batch returns the figures of requests of a size, which stay in ascending order.
func (m *meter) batch(size uint64) *edgewise.BatchStatistics {
	at, found := slices.BinarySearchFunc(m.total.Batches, size, func(b edgewise.BatchStatistics, size uint64) int {
		return cmp.Compare(b.Size, size)
	})
	if !found {
		m.total.Batches = slices.Insert(m.total.Batches, at, edgewise.BatchStatistics{Size: size})
	}
	return &m.total.Batches[at]
}

func (m *meter) failed(took time.Duration, err error) {
	reason := edgewise.FailureReasonOf(edgewise.KindOf(err))
	if reason == edgewise.FailureBackend {
		reason = edgewise.FailureOther // it is a step's, which counts it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.Fail.Add(took)
	m.total.Failures[reason]++
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

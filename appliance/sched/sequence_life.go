package sched

import (
	"context"

	"github.com/edgewise-ai/edgewise"
)

// Warm runs requests before the version is announced as ready, each as a sequence of its own: with START, READY and END,
// and with what states begin with. Then it tries whether batches pay. Neither leaves a trace in the statistics.
func (s *Sequences) Warm(ctx context.Context, requests []*edgewise.Request) error {
	var plain []*edgewise.Request
	for _, req := range requests {
		j := newJob()
		if err := s.checker.check(req, j); err != nil {
			return edgewise.Errorf("sched.Warm", edgewise.KindOf(err), "warm-up %q: %w", req.ID, err)
		}
		rows := make([]signal, j.batch)
		for i := range rows {
			rows[i] = signal{start: true, end: true, ready: true, key: sequenceKey{id: uint64(i) + 1}}
		}
		warm := *req
		warm.Inputs = append([]edgewise.Tensor(nil), req.Inputs...)
		for i := range s.controls {
			warm.Inputs = append(warm.Inputs, s.controls[i].tensor(rows, s.states.batches))
		}
		for _, t := range s.states.of(&stateStore{}, true) {
			warm.Inputs = append(warm.Inputs, repeated(t, j.batch))
		}
		warm.Outputs = s.states.wanted(j.want)
		plain = append(plain, &warm)
	}
	err := s.runs.Warm(ctx, plain)
	s.measured.reset()
	s.spare.Store(0)
	if s.version.Model.SequenceBatching.Oldest == nil {
		s.table.mu.Lock()
		defer s.table.mu.Unlock()
		s.table.hold = s.hold
	}
	return err
}

// repeated is a tensor of one row as that of several.
func repeated(t edgewise.Tensor, rows int) edgewise.Tensor {
	if rows == 1 {
		return t
	}
	data := alignedBytes(rows * len(t.Data))[:0]
	for range rows {
		data = append(data, t.Data...)
	}
	t.Shape = append(edgewise.Shape{int64(rows)}, t.Shape[1:]...)
	t.Data = data
	return t
}

// Resize changes how many batches run at the same time and how many instances have slots, to what m says. Sequences keep
// their slots, those too, for which there would be none any more: until they end.
func (s *Sequences) Resize(lanes int, m *edgewise.Model) {
	s.runs.Resize(lanes)
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.table.closed {
		return
	}
	s.table.slots.resize(instancesOf(m))
	s.table.seat()
}

// Statistics returns what has been measured so far. Executions count with all rows of their batches; inferences only
// with those that had a request.
func (s *Sequences) Statistics() edgewise.Statistics {
	stats, executed := s.measured.read(), s.runs.Statistics()
	stats.LastInference, stats.ExecutionCount, stats.Batches = executed.LastInference, executed.ExecutionCount, executed.Batches
	stats.InferenceCount = executed.InferenceCount - min(uint64(s.spare.Load()), executed.InferenceCount)
	stats.Closed, stats.Guest, stats.Process = executed.Closed, executed.Guest, executed.Process
	sequences, waiting := s.table.read()
	sequences.StateBytes = s.states.used.Load()
	stats.Pending = executed.Pending + int64(waiting)
	stats.Sequences = &sequences
	return stats
}

// Process returns what is known of the process in which the instance runs; see edgewise.Isolated.
func (s *Sequences) Process() (p edgewise.Process, ok bool) { return s.runs.Process() }

// Ended is closed when the instance's process is not started again; see edgewise.Isolated.
func (s *Sequences) Ended() <-chan struct{} { return s.runs.Ended() }

// Holds tells whether the sequence that id names goes on here; see edgewise.Sequencer.
func (s *Sequences) Holds(id edgewise.Sequence) bool { return s.table.holds(keyOf(id)) }

// Drain refuses new sequences and waits for those that are there to end; see edgewise.Sequencer.
func (s *Sequences) Drain(ctx context.Context) error {
	select {
	case <-s.table.drain():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses new requests, runs those that wait, forgets the sequences, waits until every response has been released
// and closes the instance.
func (s *Sequences) Close() error {
	s.table.close()
	s.table.inflight.Wait()
	if s.rounds != nil {
		s.rounds.close()
	}
	s.lent.Wait()
	return s.runs.Close()
}

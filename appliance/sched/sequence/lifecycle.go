package sequence

import (
	"context"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// Verify runs a request before the version is announced as ready, as a sequence of its own: with START, READY and END,
// and with initial states. See sched.Scheduler.Verify.
func (b *Batcher) Verify(ctx context.Context, req *edgewise.Request) error {
	plain, err := b.plain(req)
	if err != nil {
		return err
	}
	return b.runs.Verify(ctx, plain)
}

// Warm runs requests as Verify does, and then tries whether batches pay. The statistics count none of that.
func (b *Batcher) Warm(ctx context.Context, requests []*edgewise.Request) error {
	var all []*edgewise.Request
	for _, req := range requests {
		plain, err := b.plain(req)
		if err != nil {
			return edgewise.Errorf("sequence.Warm", edgewise.KindOf(err), "warm-up %q: %w", req.ID, err)
		}
		all = append(all, plain)
	}
	err := b.runs.Warm(ctx, all)
	b.measured.Reset()
	b.spare.Store(0)
	if b.version.Model.SequenceBatching.Oldest == nil {
		b.table.mu.Lock()
		defer b.table.mu.Unlock()
		b.table.hold = b.hold
	}
	return err
}

// plain is a request whose rows are sequences of one request each, as the model sees it.
func (b *Batcher) plain(req *edgewise.Request) (*edgewise.Request, error) {
	checked, err := b.checker.Admit(req, nil)
	if err != nil {
		return nil, err
	}
	rows := make([]signal, checked.Rows)
	for i := range rows {
		rows[i] = signal{start: true, end: true, ready: true, id: correlationID{id: uint64(i) + 1}}
	}
	plain := *req
	plain.Sequence = edgewise.Sequence{}
	plain.Inputs = append([]edgewise.Tensor(nil), req.Inputs...)
	for i := range b.controls {
		plain.Inputs = append(plain.Inputs, b.controls[i].tensor(rows, b.states.batches))
	}
	for _, t := range b.states.of(&stateStore{}, true) {
		plain.Inputs = append(plain.Inputs, repeated(t, checked.Rows))
	}
	plain.Outputs = b.states.wanted(checked.Outputs)
	return &plain, nil
}

// repeated is a tensor of one row as that of several.
func repeated(t edgewise.Tensor, rows int) edgewise.Tensor {
	if rows == 1 {
		return t
	}
	data := sched.AlignedBytes(rows * len(t.Data))[:0]
	for range rows {
		data = append(data, t.Data...)
	}
	t.Shape = append(edgewise.Shape{int64(rows)}, t.Shape[1:]...)
	t.Data = data
	return t
}

// Resize changes how many batches run at the same time and how many instances have slots, to what m says. Sequences
// keep their slots until they end, also those beyond the new number.
func (b *Batcher) Resize(n int, m *edgewise.Model) {
	b.runs.Resize(n)
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	if b.table.closed {
		return
	}
	b.table.slots.resize(m.Instances())
	b.table.assign()
}

// Statistics returns what has been measured so far. Executions count with all rows of their batches; inferences only
// with those that had a request.
func (b *Batcher) Statistics() edgewise.Statistics {
	stats, executed := b.measured.Read(), b.runs.Statistics()
	stats.LastInference, stats.Batches = executed.LastInference, executed.Batches
	stats.ExecutionCount = executed.ExecutionCount
	stats.InferenceCount = executed.InferenceCount - min(uint64(b.spare.Load()), executed.InferenceCount)
	stats.Closed, stats.Guest, stats.Process = executed.Closed, executed.Guest, executed.Process
	stats.Responses = executed.Responses
	sequences, waiting := b.table.read()
	sequences.StateBytes = b.states.used.Load()
	stats.Pending = executed.Pending + int64(waiting)
	stats.Sequences = &sequences
	return stats
}

// Process returns what is known of the process in which the instance runs; see edgewise.Isolated.
func (b *Batcher) Process() (p edgewise.Process, ok bool) { return b.runs.Process() }

// Ended is closed when the instance's process is not started again; see edgewise.Isolated.
func (b *Batcher) Ended() <-chan struct{} { return b.runs.Ended() }

// Holds tells whether the sequence that id names continues here.
func (b *Batcher) Holds(id edgewise.Sequence) bool { return b.table.holds(idOf(id)) }

// Drain refuses new sequences and waits for the present ones to end.
func (b *Batcher) Drain(ctx context.Context) error {
	select {
	case <-b.table.drain():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses new requests, runs those that wait, forgets the sequences, waits until every response has been released
// and closes the instance.
func (b *Batcher) Close() error {
	b.table.close()
	b.table.inflight.Wait()
	if b.direct != nil {
		b.direct.close()
	}
	b.shared.Wait()
	return b.runs.Close()
}

// PlainModel returns the model of a version with sequences as its runs see it: the control and state tensors are inputs
// and outputs like others, and requests of different sequences run together as in a dynamic batcher (strategy oldest),
// or each by itself (direct, where batches are made of slots before they are queued).
func PlainModel(m *edgewise.Model) *edgewise.Model {
	plain := *m
	b := m.SequenceBatching
	plain.SequenceBatching = nil
	plain.Input, plain.Output = slices.Clone(m.Input), slices.Clone(m.Output)
	for _, c := range controlsOf(b) {
		plain.Input = append(
			plain.Input, edgewise.ModelInput{Name: c.name, DataType: c.dataType, Dims: edgewise.Shape{1}},
		)
	}
	for _, s := range b.State {
		plain.Input = append(plain.Input, edgewise.ModelInput{Name: s.InputName, DataType: s.DataType, Dims: s.Dims})
		if !slices.ContainsFunc(m.Output, func(out edgewise.ModelOutput) bool { return out.Name == s.OutputName }) {
			plain.Output = append(
				plain.Output, edgewise.ModelOutput{Name: s.OutputName, DataType: s.DataType, Dims: s.Dims},
			)
		}
	}
	if b.Oldest != nil {
		plain.DynamicBatching = &edgewise.DynamicBatching{
			PreferredBatchSize: b.Oldest.PreferredBatchSize, MaxQueueDelay: b.Oldest.MaxQueueDelay,
			PreserveOrdering: b.Oldest.PreserveOrdering,
		}
	}
	return &plain
}

// candidates is how many sequences one instance has slots for.
func candidates(m *edgewise.Model) int {
	if b := m.SequenceBatching; b.Oldest != nil && b.Oldest.MaxCandidateSequences > 0 {
		return int(b.Oldest.MaxCandidateSequences)
	}
	return int(max(m.MaxBatchSize, 1))
}

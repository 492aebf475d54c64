package sequence

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// hasher is an instance with a state: y = 31 state + x, which is the next state, and id is the sequence. Rows with
// START begin with the state 1 whatever they are given. It keeps what it returned in memory that it scribbles over when
// it is freed, and fails on markers.
type hasher struct {
	mu     sync.Mutex // guards what follows
	delay  time.Duration
	inUse  int
	rows   []int // of each run
	ready  []int // rows with a request, of each run
	seen   [][]int64
	faults []string
	leaves func() // called by each run that has more than one row, before it looks at them
}

const (
	hashFails  = -1 // the whole run fails
	hashPanics = -2
)

func (h *hasher) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	h.mu.Lock()
	delay, leaves := h.delay, h.leaves
	h.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	of := func(name string) []byte {
		i := slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == name })
		if i < 0 {
			return nil
		}
		return in[i].Data
	}
	x, state, start, ready, id := of("x"), of("state"), of("START"), of("READY"), of("CORRID")
	n := len(x) / 8
	if n > 1 && leaves != nil {
		leaves()
	}
	y := make([]byte, 8*n)
	var ids []int64
	live := 0
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range n {
		if ready != nil && ready[i] == 0 {
			if binary.LittleEndian.Uint64(id[8*i:]) != 0 || start[i] != 0 {
				h.faults = append(h.faults, "a row that is not ready has an id or a start")
			}
			ids = append(ids, 0)
			binary.LittleEndian.PutUint64(y[8*i:], 0xdead)
			continue
		}
		live++
		v, s := int64(binary.LittleEndian.Uint64(x[8*i:])), int64(binary.LittleEndian.Uint64(state[8*i:]))
		switch v {
		case hashFails:
			return nil, errors.New("bad row")
		case hashPanics:
			panic("worse row")
		}
		if start != nil && start[i] == 1 && s != 1 {
			h.faults = append(h.faults, "a start finds an old state")
		}
		binary.LittleEndian.PutUint64(y[8*i:], uint64(31*s+v))
		if id != nil {
			ids = append(ids, int64(binary.LittleEndian.Uint64(id[8*i:])))
		}
	}
	h.rows, h.ready, h.seen = append(h.rows, n), append(h.ready, live), append(h.seen, ids)
	h.inUse++
	shape := in[slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == "x" })].Shape
	var outputs []edgewise.Tensor
	for _, name := range want {
		data := slices.Clone(y)
		if name == "id" {
			data = slices.Clone(id)
		}
		outputs = append(
			outputs, edgewise.Tensor{Name: name, Type: edgewise.Int64, Shape: slices.Clone(shape), Data: data},
		)
	}
	return &edgewise.Result{Outputs: outputs, Free: func() {
		for _, t := range outputs {
			clear(t.Data)
		}
		h.mu.Lock()
		h.inUse--
		h.mu.Unlock()
	}}, nil
}

func (h *hasher) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inUse != 0 {
		return errors.New("closed with results in use")
	}
	return nil
}

func hashModel(batch int32, edit func(*edgewise.SequenceBatching)) *edgewise.Model {
	one := edgewise.Shape{1}
	b := &edgewise.SequenceBatching{
		MaxSequenceIdle: 1_000_000,
		ControlInput: []edgewise.ControlInput{
			{Name: "START", Control: []edgewise.Control{{Kind: controlStart, BoolFalseTrue: []bool{false, true}}}},
			{Name: "READY", Control: []edgewise.Control{{Kind: controlReady, BoolFalseTrue: []bool{false, true}}}},
			{Name: "CORRID", Control: []edgewise.Control{{Kind: controlID, DataType: edgewise.Int64}}},
		},
		State: []edgewise.SequenceState{{InputName: "state", OutputName: "next", DataType: edgewise.Int64, Dims: one}},
	}
	if edit != nil {
		edit(b)
	}
	return &edgewise.Model{
		Name: "hash", MaxBatchSize: batch, SequenceBatching: b,
		Input: []edgewise.ModelInput{{Name: "x", DataType: edgewise.Int64, Dims: one}},
		Output: []edgewise.ModelOutput{
			{Name: "y", DataType: edgewise.Int64, Dims: one}, {Name: "id", DataType: edgewise.Int64, Dims: one},
		},
		InstanceGroup: []edgewise.InstanceGroup{{Name: "g", Kind: edgewise.KindCPU, Count: 1}},
	}
}

func oldest(n int32) func(*edgewise.SequenceBatching) {
	return func(b *edgewise.SequenceBatching) { b.Oldest = &edgewise.OldestStrategy{MaxCandidateSequences: n} }
}

func direct(delay time.Duration, share float32) func(*edgewise.SequenceBatching) {
	return func(b *edgewise.SequenceBatching) {
		b.Direct = &edgewise.DirectStrategy{
			MaxQueueDelay: uint64(delay / time.Microsecond), MinimumSlotUtilization: share,
		}
	}
}

// ones is what the states of hasher begin with.
func ones() []edgewise.Tensor {
	return []edgewise.Tensor{
		{Name: "state", Type: edgewise.Int64, Shape: edgewise.Shape{1}, Data: []byte{1, 0, 0, 0, 0, 0, 0, 0}},
	}
}

func batcherOf(i edgewise.Instance, m *edgewise.Model, c sched.Config, budget *StateBudget) *Batcher {
	c.Logger = slog.New(slog.DiscardHandler)
	c.Instances, c.MaxQueue = max(c.Instances, 1), max(c.MaxQueue, 1)
	return New(
		&edgewise.Version{ID: edgewise.ModelID{Name: m.Name, Version: 3}, Model: m}, i, c,
		Config{Initial: ones(), Budget: budget},
	)
}

// step is one request of a sequence.
func step(batches bool, id edgewise.Sequence, x int64) *edgewise.Request {
	shape := edgewise.Shape{1}
	if batches {
		shape = edgewise.Shape{1, 1}
	}
	return &edgewise.Request{ID: "r", Sequence: id, Inputs: []edgewise.Tensor{
		{Name: "x", Type: edgewise.Int64, Shape: shape, Data: binary.LittleEndian.AppendUint64(nil, uint64(x))},
	}}
}

// said reads y of an answer and releases it.
func said(t *testing.T, r *edgewise.Response) int64 {
	t.Helper()
	defer r.Release()
	if r.Outputs[0].Name != "y" || len(r.Outputs[0].Data) != 8 {
		t.Fatalf("outputs %+v", r.Outputs)
	}
	return int64(binary.LittleEndian.Uint64(r.Outputs[0].Data))
}

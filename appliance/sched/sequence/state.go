package sequence

import (
	"slices"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

// StateBudget bounds the bytes that the implicit states of sequences take, of all versions together. nil: no bound.
type StateBudget struct {
	limit int64
	used  atomic.Int64
}

// NewStateBudget makes a budget of so many bytes, at least 1.
func NewStateBudget(limit int64) *StateBudget { return &StateBudget{limit: max(limit, 1)} }

// Used returns the bytes in use.
func (b *StateBudget) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// take adds n, which may be negative, and tells whether there was room.
func (b *StateBudget) take(n int64) bool {
	if b == nil {
		return true
	}
	if b.used.Add(n) > b.limit && n > 0 {
		b.used.Add(-n)
		return false
	}
	return true
}

// states is the implicit state of a version's sequences: outputs of one request that are inputs of the next one.
type states struct {
	model   *edgewise.Model
	rules   []stateRule
	budget  *StateBudget
	used    atomic.Int64 // bytes of all sequences of the version
	batches bool
}

// stateRule is one state. initial is what a sequence begins with; its bytes are never written to.
type stateRule struct {
	input, output string
	dataType      edgewise.DataType
	dims          edgewise.Shape // with the batch dimension, if there is one
	initial       edgewise.Tensor
}

// stateStore is the state of one sequence: as many tensors as there are rules, or none before its first request.
type stateStore struct {
	tensors []edgewise.Tensor
	bytes   int64
}

// newStates reads a model's states. initial are the tensors that sequences begin with, by the name of the input; others
// begin with zeros, or empty strings, where variable dimensions have the size 1.
func newStates(m *edgewise.Model, initial []edgewise.Tensor, budget *StateBudget) *states {
	s := &states{model: m, budget: budget, batches: m.MaxBatchSize > 0}
	for _, state := range m.SequenceBatching.State {
		r := stateRule{
			input: state.InputName, output: state.OutputName, dataType: state.DataType, dims: s.row(state.Dims),
		}
		if i := slices.IndexFunc(initial, func(t edgewise.Tensor) bool { return t.Name == state.InputName }); i >= 0 {
			r.initial = initial[i]
			r.initial.Shape = s.row(initial[i].Shape)
		} else {
			r.initial = zeroState(state.InputName, state.DataType, r.dims)
		}
		s.rules = append(s.rules, r)
	}
	return s
}

// row puts the batch dimension of one row in front of dims.
func (s *states) row(dims edgewise.Shape) edgewise.Shape {
	if !s.batches {
		return dims
	}
	return append(edgewise.Shape{1}, dims...)
}

func zeroState(name string, t edgewise.DataType, dims edgewise.Shape) edgewise.Tensor {
	shape := slices.Clone(dims)
	for i := range shape {
		if shape[i] < 0 {
			shape[i] = 1
		}
	}
	n, _ := shape.Elements()
	data, _ := trial.Zeros(t, n)
	return edgewise.Tensor{Name: name, Type: t, Shape: shape, Data: data}
}

// of returns the state that a request of a sequence finds. start: the sequence starts again.
func (s *states) of(store *stateStore, start bool) []edgewise.Tensor {
	if start {
		s.forget(store)
	}
	return s.peek(store, start)
}

// peek is of, and leaves the state as it is.
func (s *states) peek(store *stateStore, start bool) []edgewise.Tensor {
	if len(store.tensors) > 0 && !start {
		return store.tensors
	}
	list := make([]edgewise.Tensor, len(s.rules))
	for i := range s.rules {
		list[i] = s.rules[i].initial
	}
	return list
}

// keep copies the states among the outputs of a request for the next one. On an error the state is what it was.
// Errors: Internal (an output that is no state as declared), Exhausted (the budget).
func (s *states) keep(store *stateStore, outputs []edgewise.Tensor) error {
	var bytes int64
	for i := range s.rules {
		t, err := s.find(&s.rules[i], outputs)
		if err != nil {
			return err
		}
		bytes += int64(len(t.Data))
	}
	if !s.budget.take(bytes - store.bytes) {
		return edgewise.Errorf(
			"sequence.keep", edgewise.Exhausted,
			"model %q: the state of a sequence takes %d bytes, and the states of all sequences together at most %d",
			s.model.Name, bytes, s.budget.limit,
		).WithLimit(s.budget.limit)
	}
	s.used.Add(bytes - store.bytes)
	store.bytes = bytes
	if len(store.tensors) == 0 {
		store.tensors = make([]edgewise.Tensor, len(s.rules))
	}
	for i := range s.rules {
		from, _ := s.find(&s.rules[i], outputs)
		to := &store.tensors[i]
		if cap(to.Data) < len(from.Data) {
			to.Data = sched.AlignedBytes(len(from.Data))
		}
		to.Name, to.Type, to.Shape = s.rules[i].input, from.Type, append(to.Shape[:0], from.Shape...)
		to.Data = append(to.Data[:0], from.Data...)
	}
	return nil
}

func (s *states) find(r *stateRule, outputs []edgewise.Tensor) (*edgewise.Tensor, error) {
	for i := range outputs {
		t := &outputs[i]
		switch {
		case t.Name != r.output:
		case t.Type != r.dataType || !r.dims.Accepts(t.Shape):
			return nil, edgewise.Errorf(
				"sequence.keep", edgewise.Internal, "model %q: state output %q is %v%v, and the state's dims are %v%v",
				s.model.Name, t.Name, t.Type, t.Shape, r.dataType, r.dims,
			)
		default:
			return t, nil
		}
	}
	return nil, edgewise.Errorf(
		"sequence.keep", edgewise.Internal, "model %q: the backend did not make state output %q", s.model.Name,
		r.output,
	)
}

// forget gives the memory of a state back.
func (s *states) forget(store *stateStore) {
	s.budget.take(-store.bytes)
	s.used.Add(-store.bytes)
	*store = stateStore{}
}

// wanted returns want with the outputs behind it that are needed as states.
func (s *states) wanted(want []string) []string {
	if len(s.rules) == 0 {
		return want
	}
	all := slices.Clip(want)
	for i := range s.rules {
		if !slices.Contains(want, s.rules[i].output) {
			all = append(all, s.rules[i].output)
		}
	}
	return all
}

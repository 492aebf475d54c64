package sequence

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

func TestControlTensors(t *testing.T) {
	f := func(v float32) uint32 { return math.Float32bits(v) }
	words := func(v ...uint32) (data []byte) {
		for _, w := range v {
			data = binary.LittleEndian.AppendUint32(data, w)
		}
		return data
	}
	rows := []signal{
		{start: true, ready: true, id: correlationID{id: 1<<40 + 7}},
		{start: true, end: true},
		{end: true, ready: true, id: correlationID{id: 9}},
	}
	named := []signal{{ready: true, id: correlationID{name: "ab"}}, {}}
	tests := []struct {
		name  string
		give  edgewise.Control
		rows  []signal
		kind  edgewise.DataType
		bytes []byte
	}{
		{"start as int32", edgewise.Control{
			Kind: controlStart, Int32FalseTrue: []int32{-1, 2},
		}, rows, edgewise.Int32, words(2, math.MaxUint32, math.MaxUint32)},
		{"end as fp32", edgewise.Control{
			Kind: controlEnd, FP32FalseTrue: []float32{0.5, 1},
		}, rows, edgewise.FP32, words(f(0.5), f(0.5), f(1))},
		{"ready as bool", edgewise.Control{
			Kind: controlReady, BoolFalseTrue: []bool{false, true},
		}, rows, edgewise.Bool, []byte{1, 0, 1}},
		{"ready the other way round", edgewise.Control{
			Kind: controlReady, BoolFalseTrue: []bool{true, false},
		}, rows, edgewise.Bool, []byte{0, 1, 0}},
		{"id as uint64", edgewise.Control{
			Kind: controlID, DataType: edgewise.Uint64,
		}, rows, edgewise.Uint64, words(7, 1<<8, 0, 0, 9, 0)},
		{"id as int64", edgewise.Control{
			Kind: controlID, DataType: edgewise.Int64,
		}, rows, edgewise.Int64, words(7, 1<<8, 0, 0, 9, 0)},
		{"id as uint32", edgewise.Control{
			Kind: controlID, DataType: edgewise.Uint32,
		}, rows, edgewise.Uint32, words(7, 0, 9)},
		{"id as int32", edgewise.Control{
			Kind: controlID, DataType: edgewise.Int32,
		}, rows, edgewise.Int32, words(7, 0, 9)},
		{"id as text", edgewise.Control{Kind: controlID, DataType: edgewise.Bytes}, named, edgewise.Bytes, append(
			words(2), 'a', 'b', 0, 0, 0, 0,
		)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := controlOf("c", test.give)
			got := c.tensor(test.rows, true)
			if got.Name != "c" || got.Type != test.kind || !got.Shape.Equal(
				edgewise.Shape{int64(len(test.rows)), 1},
			) || !slices.Equal(got.Data, test.bytes) {
				t.Errorf("got %+v, want %v %v", got, test.kind, test.bytes)
			}
			one := c.tensor(test.rows[:1], false)
			if err := one.Check(); err != nil || !one.Shape.Equal(edgewise.Shape{1}) {
				t.Errorf("one row without batching: %+v, %v", one, err)
			}
		})
	}
}

// sizer is an instance whose state grows by one element with every request, and whose output says how large it was.
type sizer struct{ wrong bool }

func (z *sizer) Run(_ context.Context, in []edgewise.Tensor, want []string, _ edgewise.RunOptions) (*edgewise.Result,
	error,
) {
	state := in[slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == "state" })]
	n := state.Shape[len(state.Shape)-1]
	var out []edgewise.Tensor
	for _, name := range want {
		made := edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: floats(float32(n))}
		if name == "next" {
			made.Shape, made.Data = edgewise.Shape{2, n + 1}, make([]byte, 8*(n+1))
			if z.wrong {
				made.Shape = edgewise.Shape{n + 1, 2}
			}
		}
		out = append(out, made)
	}
	return &edgewise.Result{Outputs: out, Free: func() {}}, nil
}

func (z *sizer) Close() error { return nil }

func sizeModel() *edgewise.Model {
	return &edgewise.Model{
		Name: "size", Input: []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{1}}},
		Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{1}}},
		SequenceBatching: &edgewise.SequenceBatching{
			MaxSequenceIdle: 1e9, Oldest: &edgewise.OldestStrategy{MaxCandidateSequences: 4},
			State: []edgewise.SequenceState{
				{InputName: "state", OutputName: "next", DataType: edgewise.FP32, Dims: edgewise.Shape{2, -1}},
			},
		},
	}
}

func sizes(z *sizer, budget *StateBudget) *Batcher {
	c := sched.Config{Instances: 1, MaxQueue: 9, Logger: slog.New(slog.DiscardHandler)}
	return New(&edgewise.Version{Model: sizeModel()}, z, c, Config{Budget: budget})
}

func sizeRequest(id edgewise.Sequence) *edgewise.Request {
	return &edgewise.Request{
		Sequence: id,
		Inputs:   []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: floats(0)}},
	}
}

// TestStateGrowsWithinTheBudget crosses the bound on the bytes of all states: the request fails, the sequence stays as
// it was, and goes on when another one has ended.
func TestStateGrowsWithinTheBudget(t *testing.T) {
	budget := NewStateBudget(47)
	s := sizes(&sizer{}, budget)
	ask := func(id edgewise.Sequence, want string) {
		t.Helper()
		r, err := s.Infer(t.Context(), sizeRequest(id))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(r.Outputs[0].Data)))
			r.Release()
		} else if edgewise.KindOf(err) != edgewise.Exhausted {
			t.Error(err)
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	ask(starts(1), "1") // its state has the size 2 now: 16 bytes
	ask(starts(2), "1")
	ask(goes(1), "2") // 24
	full := `model "size": the state of a sequence takes 32 bytes, and the states of all sequences together at most 47`
	ask(goes(1), full)
	ask(goes(1), full)
	if st := s.Statistics(); st.Sequences.StateBytes != 40 || budget.Used() != 40 {
		t.Errorf("%d bytes, of the budget %d", st.Sequences.StateBytes, budget.Used())
	}
	ask(ends(2), "2")
	ask(goes(1), "3")
	if err := s.Close(); err != nil || budget.Used() != 0 {
		t.Errorf("closed with %v, %d bytes are left", err, budget.Used())
	}
}

func TestStateOfAnotherShape(t *testing.T) {
	s := sizes(&sizer{wrong: true}, nil)
	r, err := s.Infer(t.Context(), sizeRequest(starts(1)))
	r.Release()
	if want := `state output "next" is FP32[2,2], and the state's dims are FP32[2,-1]`; err != nil {
		t.Errorf("a state that fits by chance: %v", err)
	} else if _, err = s.Infer(t.Context(), sizeRequest(goes(1))); err == nil ||
		!strings.Contains(err.Error(), strings.ReplaceAll(want, "[2,2]", "[3,2]")) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func floats(values ...float32) []byte {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

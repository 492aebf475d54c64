package ort

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// node makes a model of one operator with inputs a, b, c ... of some types, all dimensions variable, and output y.
func node(op string, y onnxgen.Type, inputs []onnxgen.Value, attributes ...onnxgen.Attribute) *onnxgen.Model {
	var names []string
	for _, in := range inputs {
		names = append(names, in.Name)
	}
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:  []onnxgen.Node{{Op: op, In: names, Out: []string{"y"}, Attributes: attributes}},
		Inputs: inputs, Outputs: []onnxgen.Value{{Name: "y", Type: y, Unranked: true}},
	}}
}

// reshapeOfThree reshapes three numbers, which fit no shape of ones.
func reshapeOfThree() *onnxgen.Model {
	a := onnxgen.Value{Name: "a", Type: onnxgen.Float, Dims: onnxgen.Dims(3)}
	b := onnxgen.Value{Name: "b", Type: onnxgen.Int64, Dims: onnxgen.Dims(2)}
	return node("Reshape", onnxgen.Float, []onnxgen.Value{a, b})
}

func anySize(name string, t onnxgen.Type, rank int) onnxgen.Value {
	v := onnxgen.Value{Name: name, Type: t}
	for d := range rank {
		v.Dims = append(v.Dims, onnxgen.Dim{Name: name + string(rune('0'+d))})
	}
	return v
}

func floats(name string, shape edgewise.Shape, values ...float32) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}

func ints(name string, shape edgewise.Shape, values ...int64) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.Int64, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(v))
	}
	return t
}

// TestWhatInputCausesIsInvalid runs operators on values and shapes that they refuse: that is the client's error, from
// the first request on and after others.
func TestWhatInputCausesIsInvalid(t *testing.T) {
	three := edgewise.Shape{3}
	for _, test := range []struct {
		name  string
		model *onnxgen.Model
		bad   []edgewise.Tensor
	}{
		{
			"Reshape", node("Reshape", onnxgen.Float,
				[]onnxgen.Value{anySize("a", onnxgen.Float, 2), anySize("b", onnxgen.Int64, 1)}),
			[]edgewise.Tensor{floats("a", edgewise.Shape{1, 3}, 1, 2, 3), ints("b", edgewise.Shape{1}, 4)},
		},
		{"Reshape of a fixed size", reshapeOfThree(), []edgewise.Tensor{
			floats("a", three, 1, 2, 3),
			ints("b", edgewise.Shape{2}, 2, 2),
		}},
		{
			"Gather", node("Gather", onnxgen.Float,
				[]onnxgen.Value{anySize("a", onnxgen.Float, 1), anySize("b", onnxgen.Int64, 1)}),
			[]edgewise.Tensor{floats("a", three, 1, 2, 3), ints("b", edgewise.Shape{1}, 7)},
		},
		{
			"Add", node("Add", onnxgen.Float, []onnxgen.Value{anySize("a", onnxgen.Float, 1), anySize("b", onnxgen.Float, 1)}),
			[]edgewise.Tensor{floats("a", three, 1, 2, 3), floats("b", edgewise.Shape{2}, 1, 2)},
		},
		{
			"MatMul", node("MatMul", onnxgen.Float,
				[]onnxgen.Value{anySize("a", onnxgen.Float, 2), anySize("b", onnxgen.Float, 2)}),
			[]edgewise.Tensor{floats("a", edgewise.Shape{1, 3}, 1, 2, 3), floats("b", edgewise.Shape{1, 2}, 1, 2)},
		},
		{
			"Concat", node("Concat", onnxgen.Float,
				[]onnxgen.Value{anySize("a", onnxgen.Float, 2), anySize("b", onnxgen.Float, 2)}, onnxgen.IntAttribute("axis", 0)),
			[]edgewise.Tensor{floats("a", edgewise.Shape{1, 3}, 1, 2, 3), floats("b", edgewise.Shape{1, 2}, 1, 2)},
		},
		{
			"Expand", node("Expand", onnxgen.Float,
				[]onnxgen.Value{anySize("a", onnxgen.Float, 1), anySize("b", onnxgen.Int64, 1)}),
			[]edgewise.Tensor{floats("a", three, 1, 2, 3), ints("b", edgewise.Shape{1}, 2)},
		},
		{
			"Squeeze", node("Squeeze", onnxgen.Float,
				[]onnxgen.Value{anySize("a", onnxgen.Float, 2), anySize("b", onnxgen.Int64, 1)}),
			[]edgewise.Tensor{floats("a", edgewise.Shape{1, 3}, 1, 2, 3), ints("b", edgewise.Shape{1}, 1)},
		},
		{
			"Tile", node("Tile", onnxgen.Float, []onnxgen.Value{anySize("a", onnxgen.Float, 1), anySize("b", onnxgen.Int64, 1)}),
			[]edgewise.Tensor{floats("a", three, 1, 2, 3), ints("b", edgewise.Shape{1}, -1)},
		},
		{"Range", node("Range", onnxgen.Int64,
			[]onnxgen.Value{
				{Name: "a", Type: onnxgen.Int64},
				{Name: "b", Type: onnxgen.Int64},
				{Name: "c", Type: onnxgen.Int64},
			}), []edgewise.Tensor{
			ints("a", edgewise.Shape{}, 0),
			ints("b", edgewise.Shape{}, 9), ints("c", edgewise.Shape{}, 0),
		}},
		{
			"TopK", node("TopK", onnxgen.Float, []onnxgen.Value{anySize("a", onnxgen.Float, 1), anySize("b", onnxgen.Int64, 1)}),
			[]edgewise.Tensor{floats("a", three, 1, 2, 3), ints("b", edgewise.Shape{1}, 9)},
		},
		{
			"ConstantOfShape", node("ConstantOfShape", onnxgen.Float, []onnxgen.Value{anySize("a", onnxgen.Int64, 1)}),
			[]edgewise.Tensor{ints("a", edgewise.Shape{1}, -4)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "TopK" {
				test.model.Graph.Nodes[0].Out = []string{"y", "indices"}
			}
			wantKind(t, sessionOf(t, test.model), test.bad, edgewise.Invalid)
		})
	}
}

// TestWhatCannotBeAllocatedIsExhausted asks for a tensor that no machine has memory for.
func TestWhatCannotBeAllocatedIsExhausted(t *testing.T) {
	s := sessionOf(t, node("ConstantOfShape", onnxgen.Float, []onnxgen.Value{anySize("a", onnxgen.Int64, 1)}))
	wantKind(t, s, []edgewise.Tensor{ints("a", edgewise.Shape{1}, 1<<50)}, edgewise.Exhausted)
}

// TestABrokenModelIsNotTheClientsFault has a model that computes no input at all: its shape is wrong by its own
// arithmetic.
func TestABrokenModelIsNotTheClientsFault(t *testing.T) {
	m := &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes: []onnxgen.Node{
			{Op: "ReduceMax", In: []string{"a"}, Out: []string{"most"}},
			{Op: "Mul", In: []string{"most", "nothing"}, Out: []string{"none"}},
			{Op: "Reshape", In: []string{"none", "one"}, Out: []string{"zero"}},
			{Op: "Add", In: []string{"zero", "seven"}, Out: []string{"size"}},
			{Op: "Reshape", In: []string{"a", "size"}, Out: []string{"y"}},
		},
		Initializers: []onnxgen.Tensor{
			onnxgen.Ints64("nothing", nil, 0), onnxgen.Ints64("one", []int64{1}, 1),
			onnxgen.Ints64("seven", []int64{1}, 7),
		},
		Inputs:  []onnxgen.Value{{Name: "a", Type: onnxgen.Int64, Dims: onnxgen.Dims(2, 3)}},
		Outputs: []onnxgen.Value{{Name: "y", Type: onnxgen.Int64, Dims: []onnxgen.Dim{{Name: "n"}}}},
	}}
	wantKind(t, sessionOf(t, m), []edgewise.Tensor{ints("a", edgewise.Shape{2, 3}, 1, 2, 3, 4, 5, 6)}, edgewise.Internal)
}

func sessionOf(t *testing.T, m *onnxgen.Model) *Session {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	lib, err := Open([]string{real.Library(t)}, Process{})
	if err != nil {
		t.Fatal(err)
	}
	var inputs []string
	for _, in := range m.Graph.Inputs {
		inputs = append(inputs, in.Name)
	}
	s, err := lib.NewSession(filepath.Join(dir, "model.onnx"), inputs, []string{"y"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// wantKind runs the same input several times: what is known of a model must not change the answer.
func wantKind(t *testing.T, s *Session, in []edgewise.Tensor, want edgewise.Kind) {
	t.Helper()
	for range maxTrials + 2 {
		r, err := s.Run(t.Context(), in, []string{"y"}, edgewise.RunOptions{})
		if err == nil {
			t.Fatalf("it was computed: %+v", r.Outputs)
		}
		if got := edgewise.KindOf(err); got != want {
			t.Fatalf("got %v, want %v: %v", got, want, err)
		}
	}
}

package work_test

import (
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/gpu/onnx/work"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const large = 1 << 20

func of(t *testing.T, m *onnxgen.Model, inputs map[string]work.Input) *work.Work {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	f, err := onnxfile.Read(dir, "model.onnx", work.Limits())
	if err != nil {
		t.Fatal(err)
	}
	w, err := work.Of(t.Context(), f, inputs, large)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestNetworksHaveTheOperationsOfTheirPublications(t *testing.T) {
	pixels := map[string]work.Input{"input": {Shape: edgewise.Shape{1, 3, 224, 224}}}
	for _, c := range []struct {
		name       string
		model      *onnxgen.Model
		inputs     map[string]work.Input
		multiplies float64 // published
		bytes      int64   // of weights
	}{
		{"MobileNetV2", onnxgen.MobileNetV2(1), pixels, 300e6, 13_900_000},
		{"ResNet-50", onnxgen.ResNet50(1), pixels, 4.09e9, 102_000_000},
		{"MLP", onnxgen.MLP(1), map[string]work.Input{"input": {Shape: edgewise.Shape{1, 64}}}, 64*128 + 128*128 + 128*64 + 640, 135_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := of(t, c.model, c.inputs)
			if got := w.Operations / 2; math.Abs(got/c.multiplies-1) > 0.04 {
				t.Errorf("%.4g multiply-adds, want %.4g within 4 %%", got, c.multiplies)
			}
			if math.Abs(float64(w.Weights)/float64(c.bytes)-1) > 0.02 {
				t.Errorf("%d bytes of weights, want about %d", w.Weights, c.bytes)
			}
			if len(w.Unknown) > 0 {
				t.Errorf("unknown operators: %v", w.Unknown)
			}
		})
	}
}

func TestOperationsGrowWithTheBatchAndWeightsDoNot(t *testing.T) {
	one := of(t, onnxgen.MLP(1), map[string]work.Input{"input": {Shape: edgewise.Shape{1, 64}}})
	many := of(t, onnxgen.MLP(1), map[string]work.Input{"input": {Shape: edgewise.Shape{16, 64}}})
	if many.Operations != 16*one.Operations || many.Weights != one.Weights || many.Inputs != 16*64*4 || many.Outputs != 16*10*4 {
		t.Errorf("of 16 rows %+v, of one %+v", many, one)
	}
}

// graph makes a model of nodes that read x and make y.
func graph(in []onnxgen.Dim, weights []onnxgen.Tensor, nodes ...onnxgen.Node) *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name: "g", Nodes: nodes, Initializers: weights,
		Inputs:  []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: in}},
		Outputs: []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: []onnxgen.Dim{{Name: "n"}}}},
	}}
}

func zeros(name string, dims ...int64) onnxgen.Tensor {
	size := int64(4)
	for _, d := range dims {
		size *= d
	}
	return onnxgen.Tensor{Name: name, Type: onnxgen.Float, Dims: dims, Data: make([]byte, size)}
}

func node(op, out string, in []string, attributes ...onnxgen.Attribute) onnxgen.Node {
	return onnxgen.Node{Op: op, In: in, Out: []string{out}, Attributes: attributes}
}

func TestOperatorsAreCounted(t *testing.T) {
	ints := func(name string, values ...int64) onnxgen.Tensor {
		return onnxgen.Ints64(name, []int64{int64(len(values))}, values...)
	}
	for _, c := range []struct {
		name  string
		model *onnxgen.Model
		want  float64
	}{
		{"depthwise convolution", graph(onnxgen.Dims(1, 8, 10, 10), []onnxgen.Tensor{zeros("w", 8, 1, 3, 3)},
			node("Conv", "y", []string{"x", "w"}, onnxgen.IntAttribute("group", 8), onnxgen.IntsAttribute("pads", 1, 1, 1, 1))), 8 * 100 * 9 * 2},
		{"strided convolution without padding", graph(onnxgen.Dims(1, 2, 9, 9), []onnxgen.Tensor{zeros("w", 4, 2, 3, 3)},
			node("Conv", "y", []string{"x", "w"}, onnxgen.IntsAttribute("strides", 2, 2))), 4 * 16 * 2 * 9 * 2},
		{"transposed convolution", graph(onnxgen.Dims(1, 4, 5, 5), []onnxgen.Tensor{zeros("w", 4, 2, 2, 2)},
			node("ConvTranspose", "y", []string{"x", "w"}, onnxgen.IntsAttribute("strides", 2, 2))), 4 * 25 * 2 * 4 * 2},
		{"matrices with a batch", graph(onnxgen.Dims(3, 5, 7), []onnxgen.Tensor{zeros("w", 7, 11)},
			node("MatMul", "y", []string{"x", "w"})), 3 * 5 * 7 * 11 * 2},
		{"recurrent layer", graph(onnxgen.Dims(6, 1, 10), []onnxgen.Tensor{zeros("w", 1, 80, 10), zeros("r", 1, 80, 20)},
			node("LSTM", "y", []string{"x", "w", "r"}, onnxgen.IntAttribute("hidden_size", 20))), 6 * 4 * 20 * (2*30 + 8)},
		{
			"a shape that is computed", graph(onnxgen.Dims(2, 3, 4), []onnxgen.Tensor{ints("zero", 0), ints("rest", -1), zeros("w", 12, 5)},
				node("Shape", "s", []string{"x"}), node("Gather", "n", []string{"s", "zero"}),
				node("Concat", "to", []string{"n", "rest"}, onnxgen.IntAttribute("axis", 0)),
				node("Reshape", "flat", []string{"x", "to"}), node("MatMul", "y", []string{"flat", "w"})), 2 * 12 * 5 * 2,
		},
		{
			"a padding that is turned around", graph(onnxgen.Dims(1, 4), []onnxgen.Tensor{
				onnxgen.Ints64("pads", []int64{4}, 3, 2, 0, 0), ints("pairs", -1, 2), ints("zero", 0), ints("last", -1), ints("first", -1000),
				zeros("w", 9, 5),
			},
				node("Reshape", "p", []string{"pads", "pairs"}), node("Slice", "r", []string{"p", "last", "first", "zero", "last"}),
				node("Transpose", "t", []string{"r"}, onnxgen.IntsAttribute("perm", 1, 0)), node("Reshape", "q", []string{"t", "last"}),
				node("Pad", "z", []string{"x", "q"}), node("MatMul", "y", []string{"z", "w"})), 9 * 5 * 2,
		},
		{"what depends on no input", graph(onnxgen.Dims(1, 4), []onnxgen.Tensor{zeros("a", 50, 50), zeros("b", 50, 50)},
			node("MatMul", "never", []string{"a", "b"}), node("Relu", "y", []string{"x"})), 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			if w := of(t, c.model, nil); w.Operations != c.want || len(w.Unknown) > 0 {
				t.Errorf("%v operations, want %v; unknown %v", w.Operations, c.want, w.Unknown)
			}
		})
	}
}

func TestWhatIsNotKnownIsCountedByItsName(t *testing.T) {
	w := of(t, graph(onnxgen.Dims(1, 4), nil, node("NonZero", "i", []string{"x"}), node("Relu", "y", []string{"x"})), nil)
	if w.Unknown["NonZero"] != 1 || w.Operations != 4 || w.Nodes != 2 {
		t.Errorf("%+v", w)
	}
}

func TestOnlyLargeTensorsMove(t *testing.T) {
	model := func(rows int64) *onnxgen.Model {
		return graph(onnxgen.Dims(rows, 1024), nil, node("Relu", "a", []string{"x"}), node("Tanh", "y", []string{"a"}))
	}
	if w := of(t, model(4), nil); w.Large != 0 {
		t.Errorf("%d bytes of small tensors are counted as moved", w.Large)
	}
	if w, want := of(t, model(1024), nil), int64(2*4<<20); w.Large != want { // a, written and read
		t.Errorf("%d bytes moved, want %d", w.Large, want)
	}
}

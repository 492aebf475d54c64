package vulkan

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"os"
	"os/exec"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/test/fakevulkan"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

var inside = flag.Bool("vulkan.inside", false, "this process is one whose device runs out of memory")

// TestADeviceWithoutMemoryGivesNoWrongAnswer takes away the memory of a device between two runs, in a process of its own.
// The second run, which needs more, is refused for that; it gives no wrong numbers.
func TestADeviceWithoutMemoryGivesNoWrongAnswer(t *testing.T) {
	if *inside {
		withoutMemory(t)
		return
	}
	out, err := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-vulkan.inside", "-vulkan.driver="+*driver,
		"-vulkan.loader="+*loader).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// withoutMemory runs two models: one whose output is large, and one whose output is small and made of something large.
func withoutMemory(t *testing.T) {
	shim := fakevulkan.NewShim(t, *loader)
	*loader = shim.Path
	b := device(t)
	large := hungry{t, loadHungry(t, b, onnxgen.Node{Op: "Add", In: []string{"x", "one"}, Out: []string{"y"}})}
	inner := hungry{t, loadHungry(
		t, b,
		onnxgen.Node{Op: "Reshape", In: []string{"x", "column"}, Out: []string{"c"}},
		onnxgen.Node{Op: "Reshape", In: []string{"x", "row"}, Out: []string{"r"}},
		onnxgen.Node{Op: "MatMul", In: []string{"c", "r"}, Out: []string{"p"}},
		onnxgen.Node{
			Op: "ReduceSum", In: []string{"p"}, Out: []string{"y"},
			Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("keepdims", 0)},
		},
	)}
	large.answers(100, nil)
	inner.answers(100, nil)
	shim.Fail(fakevulkan.Memory, 0)
	for range 2 {
		large.answers(16<<20, refusedForMemory)
		inner.answers(4<<10, refusedForMemory)
	}
}

func refusedForMemory(err error) bool {
	return edgewise.DeviceLost(err) || edgewise.KindOf(err) == edgewise.Exhausted
}

func loadHungry(t *testing.T, b *onnx.Backend, nodes ...onnxgen.Node) edgewise.Instance {
	t.Helper()
	y := onnxgen.Value{Name: "y", Type: onnxgen.Float, Dims: []onnxgen.Dim{{Name: "n"}}}
	if len(nodes) > 1 {
		y.Dims = nil
	}
	m := &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes: nodes, Outputs: []onnxgen.Value{y},
		Initializers: []onnxgen.Tensor{
			onnxgen.Floats("one", []int64{1}, 1), onnxgen.Ints64("column", []int64{2}, -1, 1), onnxgen.Ints64("row", []int64{2}, 1, -1),
		},
		Inputs: []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: []onnxgen.Dim{{Name: "n"}}}},
	}}
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{Name: "m"}}
	i, err := b.Load(t.Context(), v, dir, edgewise.Device{Kind: edgewise.Vulkan})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// hungry is a model that answers ones with 2 each, or with the sum of n times n ones.
type hungry struct {
	t *testing.T
	edgewise.Instance
}

// answers asks with n ones. refused says whether an error is the right one; nil: there may be none.
func (h hungry) answers(n int64, refused func(error) bool) {
	h.t.Helper()
	one := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1))
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{n}, Data: bytes.Repeat(one, int(n))}
	result, err := h.Run(h.t.Context(), []edgewise.Tensor{in}, []string{"y"}, edgewise.RunOptions{})
	switch {
	case err != nil && (refused == nil || !refused(err)):
		h.t.Errorf("%d numbers, kind %v: %v", n, edgewise.KindOf(err), err)
		return
	case err != nil:
		return
	}
	defer result.Free()
	first := math.Float32frombits(binary.LittleEndian.Uint32(result.Outputs[0].Data))
	if want := float32(n) * float32(n); first != 2 && math.Abs(float64(first-want)) > 1e-3*float64(want) {
		h.t.Errorf("%d numbers: answered %g", n, first)
	}
}

package e2e

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// TestWhatBoundsAModelIsSaidWithFigures measures the processor, which is kept, and compares a network with it: the work of a
// run is what its authors have published. Which roof is the nearer one depends on what else the machine does, and is not asked.
func TestWhatBoundsAModelIsSaidWithFigures(t *testing.T) {
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.refuses(3, []string{"was not measured yet"}, "roofline")
	b.upload("net", "?promote=true", onnxgen.MobileNetV2(1))
	contains(t, "the processor", b.must("roofline", "--measure"), "FP32 matrix products", "GFLOP/s on one core", "GB/s on one core")
	id := edgewise.ModelID{Name: "net", Version: 1}
	if bound, err := b.client.Bound(t.Context(), id); err != nil || bound.Kind != admin.BoundFew {
		t.Errorf("before any request: %+v, %v", bound, err)
	}
	req := &edgewise.Request{Model: id, Inputs: []edgewise.Tensor{{
		Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{2, 3, 224, 224}, Data: make([]byte, 2*3*224*224*4),
	}}}
	for range 25 {
		if _, err := b.client.Infer(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	bound, err := b.client.Bound(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if w := bound.Work; w == nil || w.Operations < 2*590e6 || w.Operations > 2*630e6 || w.Inputs != "clients" || len(w.Unknown) > 0 {
		t.Errorf("two rows of MobileNetV2 are 1.2 GFLOP: %+v", w)
	}
	if bound.Batch != 2 || bound.Roofline == nil || bound.Reached <= 0 || bound.Sentence == "" {
		t.Errorf("%+v", bound)
	}
	if out := b.must("model", "show", "net"); !strings.Contains(out, "bound by: "+bound.Sentence) {
		t.Errorf("%q is not in\n%s", bound.Sentence, out)
	}
	b.stop()
	again := serveReady(t, dir)
	contains(t, "the processor after a restart", again.must("roofline"), "FP32 matrix products")
}

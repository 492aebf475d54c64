package ensemble

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// TestABatchDimensionComesAndGoes sends tensors through models that batch ("batch", rows of 3), that do not ("row", 3
// numbers) and that take any number of rows as one tensor ("rows"). Each answers with the shape that it was asked with.
func TestABatchDimensionComesAndGoes(t *testing.T) {
	const rows, row = "[-1,3]", "[3]"
	for _, test := range []struct {
		batch       int32  // max_batch_size of the ensemble
		dims, steps string // of its input and output; of its steps
		sent        edgewise.Shape
		want        string // what each step saw, and the answer
	}{
		{8, row, "row", edgewise.Shape{1, 3}, "[3] [1,3]"},
		{8, row, "rows", edgewise.Shape{2, 3}, "[2,3] [2,3]"},
		{8, row, "rows", edgewise.Shape{1, 3}, "[1,3] [1,3]"},
		{8, row, "row", edgewise.Shape{2, 3}, "[2,3] [2,3]"}, // which a real model refuses
		{8, row, "row batch row", edgewise.Shape{1, 3}, "[3] [1,3] [3] [1,3]"},
		{8, row, "batch rows batch", edgewise.Shape{5, 3}, "[5,3] [5,3] [5,3] [5,3]"},
		{0, row, "batch", edgewise.Shape{3}, "[1,3] [3]"},
		{0, rows, "batch", edgewise.Shape{2, 3}, "[2,3] [2,3]"},
		{0, rows, "batch", edgewise.Shape{1, 3}, "[1,3] [1,3]"},
		{0, row, "batch row batch", edgewise.Shape{3}, "[1,3] [3] [1,3] [3]"},
		{0, rows, "batch rows", edgewise.Shape{4, 3}, "[4,3] [4,3] [4,3]"},
		{0, row, "row batch", edgewise.Shape{3}, "[3] [1,3] [3]"},
	} {
		t.Run(fmt.Sprintf("%d %s %s", test.batch, test.dims, test.steps), func(t *testing.T) {
			z := newZoo(t)
			var seen []string
			echo := func(_ context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
				in := req.Inputs[0]
				seen, in.Name = append(seen, fmt.Sprint(in.Shape)), "y"
				return []edgewise.Tensor{in}, nil
			}
			for name, m := range map[string]struct {
				batch int32
				dims  string
			}{"batch": {8, row}, "row": {0, row}, "rows": {0, rows}} {
				z.add(name, m.batch, []string{"x:FP32" + m.dims}, []string{"y:FP32" + m.dims}, echo)
			}
			var steps []edgewise.EnsembleStep
			models, from := strings.Fields(test.steps), "x"
			for i, name := range models {
				to := fmt.Sprint("t", i)
				if i == len(models)-1 {
					to = "y"
				}
				steps, from = append(steps, stepOf(name, names{"x": from}, names{"y": to})), to
			}
			m := pipeline(0, []string{"x:FP32" + test.dims}, []string{"y:FP32" + test.dims}, steps...)
			m.MaxBatchSize = test.batch
			n, _ := test.sent.Elements()
			e := z.ensemble(m)
			r := ask(t, e, &edgewise.Request{Inputs: []edgewise.Tensor{floats("x", make([]float32, n), test.sent...)}})
			if got := strings.Join(append(seen, fmt.Sprint(r.Outputs[0].Shape)), " "); got != test.want {
				t.Errorf("sent %v: got %s, want %s", test.sent, got, test.want)
			}
			size := uint64(1)
			if test.batch > 0 {
				size = uint64(test.sent[0])
			}
			if b := e.Statistics().Batches; len(b) != 1 || b[0].Size != size || b[0].ComputeInfer.Count != 1 {
				t.Errorf("batches %+v, want one of %d", b, size)
			}
		})
	}
}

package ensemble

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// reshaped is an ensemble whose clients see rows of 4 where its only step sees rows of 2 times 2.
func reshaped(t testing.TB, maxBatchSize int32, seen *edgewise.Shape) (*zoo, *edgewise.Model) {
	z := newZoo(t)
	square := []string{"x:FP32[2,2]"}
	z.add("inner", maxBatchSize, square, []string{"y:FP32[2,2]"}, func(ctx context.Context, req *edgewise.Request) ([]edgewise.Tensor, error) {
		*seen = slices.Clone(req.Inputs[0].Shape)
		out, err := plus(1)(ctx, req)
		if err == nil {
			out[0].Shape = req.Inputs[0].Shape
		}
		return out, err
	})
	m := pipeline(maxBatchSize, []string{"x:FP32[4]"}, []string{"y:FP32[4]"}, stepOf("inner", names{"x": "x"}, names{"y": "y"}))
	m.Input[0].Reshape = &edgewise.Reshape{Shape: edgewise.Shape{2, 2}}
	m.Output[0].Reshape = &edgewise.Reshape{Shape: edgewise.Shape{2, 2}}
	return z, m
}

func TestAnEnsembleReshapesItsInputsAndOutputs(t *testing.T) {
	for _, test := range []struct {
		name          string
		maxBatchSize  int32
		outer, within edgewise.Shape
	}{
		{"without batches", 0, edgewise.Shape{4}, edgewise.Shape{2, 2}},
		{"with batches", 8, edgewise.Shape{1, 4}, edgewise.Shape{1, 2, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen edgewise.Shape
			z, m := reshaped(t, test.maxBatchSize, &seen)
			e := z.ensemble(m)
			req := request(1, 2, 3, 4)
			req.Inputs[0].Shape = test.outer
			r := ask(t, e, req)
			if !seen.Equal(test.within) {
				t.Errorf("the step saw %v, want %v", seen, test.within)
			}
			if got := r.Outputs[0].Shape; !got.Equal(test.outer) {
				t.Errorf("answered with shape %v, want %v", got, test.outer)
			}
			if got := answerOf(t, r, "y"); !slices.Equal(got, []float32{2, 3, 4, 5}) {
				t.Errorf("answered %v", got)
			}
		})
	}
}

func TestTheShapeInsideMustFitTheSteps(t *testing.T) {
	var seen edgewise.Shape
	z, m := reshaped(t, 0, &seen)
	m.Input[0].Reshape = nil
	err := Validate(m, []*edgewise.Model{z.parts(m)[0].Model})
	if err == nil || !strings.Contains(err.Error(), "tensor 'x': the ensemble takes it of shape [4], but step 0 (model 'inner')") {
		t.Errorf("got %v", err)
	}
}

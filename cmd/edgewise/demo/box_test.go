package demo

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// box answers every request with what its function makes of it.
type box struct {
	answer   func(*edgewise.Request) ([]edgewise.Tensor, error)
	requests []*edgewise.Request
	released int
}

func (b *box) Infer(_ context.Context, request *edgewise.Request) (*edgewise.Response, error) {
	b.requests = append(b.requests, request)
	outputs, err := b.answer(request)
	if err != nil {
		return nil, err
	}
	return &edgewise.Response{Model: request.Model, Outputs: outputs, Free: func() { b.released++ }}, nil
}

// input returns the values of a request's FP32 input.
func input(t *testing.T, request *edgewise.Request, name string) ([]float32, edgewise.Shape) {
	t.Helper()
	for i := range request.Inputs {
		if in := &request.Inputs[i]; in.Name == name {
			if err := in.Check(); err != nil {
				t.Fatal(err)
			}
			return decodeFloats(in.Data), in.Shape
		}
	}
	t.Fatalf("the request has no input %q", name)
	return nil, nil
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func nearPoint(p, q Point, tolerance float64) bool { return p.sub(q).length() <= tolerance }

func TestCallRefusesAnswersOfAnotherModel(t *testing.T) {
	for _, test := range []struct {
		name, message string
		output        edgewise.Tensor
	}{
		{"missing", `no output "y"`, floats("z", make([]float32, 2), 2)},
		{"shape", "want FP32[2], got FP32[3]", floats("y", make([]float32, 3), 3)},
		{"type", "got INT64[2]", edgewise.Tensor{Name: "y", Type: edgewise.Int64, Shape: edgewise.Shape{2}, Data: make([]byte, 16)}},
		{"bytes", "takes 2 elements", edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{2}, Data: make([]byte, 4)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &box{answer: func(*edgewise.Request) ([]edgewise.Tensor, error) { return []edgewise.Tensor{test.output}, nil }}
			_, err := call(context.Background(), b, "m", nil, want{"y", edgewise.Shape{2}})
			if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), test.message) ||
				!strings.Contains(err.Error(), `model "m"`) {
				t.Errorf("%v: want an invalid error with %q", err, test.message)
			}
			if b.released != 1 {
				t.Errorf("the response was released %d times, want once", b.released)
			}
		})
	}
}

func TestCallCopiesWhatItIsLent(t *testing.T) {
	lent := floats("y", []float32{1, 2}, 2)
	b := &box{answer: func(*edgewise.Request) ([]edgewise.Tensor, error) { return []edgewise.Tensor{lent}, nil }}
	outputs, err := call(context.Background(), b, "m", nil, want{"y", edgewise.Shape{-1}})
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(lent.Data, 0)
	lent.Shape[0] = 9
	if outputs[0].values[1] != 2 || outputs[0].shape[0] != 2 {
		t.Errorf("the output changed to %v %v with the box's memory", outputs[0].shape, outputs[0].values)
	}
}

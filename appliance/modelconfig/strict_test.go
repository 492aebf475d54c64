package modelconfig

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestStrictlyDeclaredModelsLeaveNothingToTheFile(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(m *edgewise.Model)
		want   []string // parts of the error, one a line of it; none: the model is accepted
	}{
		{"everything is declared", func(*edgewise.Model) {}, nil},
		{"neither inputs nor outputs", func(m *edgewise.Model) { m.Input, m.Output = nil, nil }, []string{
			`model "m": must specify 'input': engine.auto_complete is false`, `model "m": must specify 'output': engine.auto_complete is false`,
		}},
		{"dims of 0", func(m *edgewise.Model) { m.Output[0].Dims = edgewise.Shape{1, 0} }, []string{`output "y": dimension ` +
			`must be integer >= 1, or -1`}},
		{"an empty reshape without batches", func(m *edgewise.Model) {
			m.Input[0].Reshape = &edgewise.Reshape{}
		}, []string{`input "x": cannot have an empty reshape`}},
		{"an empty reshape with batches", func(m *edgewise.Model) { m.MaxBatchSize, m.Input[0].Reshape = 8, &edgewise.Reshape{} }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &edgewise.Model{
				Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{1}}},
				Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{1}}},
			}
			test.change(m)
			ins := &edgewise.Inspection{
				Inputs:  []edgewise.TensorInfo{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{-1}}},
				Outputs: []edgewise.TensorInfo{{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{-1}}},
			}
			_, err := Complete(m, "m", []string{"model.onnx"}, ins, Defaults{Formats: testFormats, Strict: true})
			if len(test.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || edgewise.KindOf(err) != edgewise.Invalid {
				t.Fatalf("got %v, want an error of kind invalid", err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(test.want) {
				t.Fatalf("got %d problems, want %d: %v", len(lines), len(test.want), err)
			}
			for i, part := range test.want {
				if !strings.Contains(lines[i], part) {
					t.Errorf("problem %d is %q, want %q in it", i, lines[i], part)
				}
			}
			if _, err := Complete(m, "m", []string{"model.onnx"}, ins, Defaults{Formats: testFormats}); err != nil {
				t.Errorf("without Strict: %v", err)
			}
		})
	}
}

package modelconfig

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

// TestEnsembleConfiguration reads every field of an ensemble, and fills in what is left out.
func TestEnsembleConfiguration(t *testing.T) {
	m, err := Parse("config.pbtxt", []byte(`
input { name: "x" data_type: TYPE_FP32 dims: -1 }
output { name: "y" data_type: TYPE_FP32 dims: -1 }
ensemble_scheduling {
  max_inflight_requests: 3
  step {
    model_name: "a" model_version: 5
    input_map { key: "i" value: "x" } output_map { key: "o" value: "y" }
    condition { tensor: "x" operator: GREATER_EQUAL value: 0.5 over: ALL otherwise: STOP text: "t" }
    fan_out { input: ["i"] leading_dims: 2 max_rows: 9 rows_per_request: 4 }
    pinned { version: 5 digest: "abc" }
  }
  step { model_name: "b" condition { tensor: "x" default_output { key: "o" value { dims: [1, 2] value: 1 } } } }
}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err = Complete(m, "e", nil, nil, testDefaults)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(m, nil, nil, testDefaults); err != nil {
		t.Error(err)
	}
	want := &edgewise.EnsembleScheduling{MaxInflightRequests: 3, Step: []edgewise.EnsembleStep{
		{
			ModelName: "a", ModelVersion: 5, InputMap: map[string]string{"i": "x"}, OutputMap: map[string]string{"o": "y"},
			Condition: &edgewise.EnsembleCondition{
				Tensor: "x", Operator: "GREATER_EQUAL", Value: 0.5, Text: "t", Over: "ALL", Otherwise: "STOP",
				DefaultOutput: map[string]edgewise.EnsembleDefault{},
			},
			FanOut: &edgewise.EnsembleFanOut{Input: []string{"i"}, LeadingDims: 2, MaxRows: 9, RowsPerRequest: 4},
			Pinned: &edgewise.EnsemblePin{Version: 5, Digest: "abc"},
		},
		{
			ModelName: "b", ModelVersion: -1, InputMap: map[string]string{}, OutputMap: map[string]string{},
			Condition: &edgewise.EnsembleCondition{
				Tensor: "x", Operator: "EQUAL", Over: "ANY", Otherwise: "SKIP",
				DefaultOutput: map[string]edgewise.EnsembleDefault{"o": {Dims: edgewise.Shape{1, 2}, Value: 1}},
			},
		},
	}}
	if diff := cmp.Diff(want, m.EnsembleScheduling); diff != "" {
		t.Error(diff)
	}
	if m.Platform != "ensemble" || m.Backend != "" || m.Optimization != nil || len(m.InstanceGroup) != 0 ||
		m.MaxBatchSize != 0 {
		t.Errorf("%+v", m)
	}
}

func TestTheExamplesOfEnsemblesAreValid(t *testing.T) {
	for _, file := range []string{"lines.pbtxt", "gate.yaml"} {
		text, err := os.ReadFile("../../configs/models/" + file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(file, text)
		if err == nil {
			m, err = Complete(m, "e", nil, nil, testDefaults)
		}
		if err == nil {
			err = Validate(m, nil, nil, testDefaults)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestTheTransactionPolicyOfAnEnsemble shows one for each ensemble, as Triton does, and none for other models.
func TestTheTransactionPolicyOfAnEnsemble(t *testing.T) {
	const steps = `ensemble_scheduling { step { model_name: "a" } }`
	for declared, want := range map[string]*edgewise.ModelTransactionPolicy{
		steps: {},
		steps + ` model_transaction_policy { decoupled: false }`: {},
		steps + ` model_transaction_policy { decoupled: true }`:  {Decoupled: true},
		`platform: "onnxruntime_onnx"`:                           nil,
	} {
		m, err := Parse("config.pbtxt", []byte(declared))
		if err != nil {
			t.Fatal(err)
		}
		if m, err = Complete(m, "e", []string{"model.onnx"}, nil, testDefaults); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m.ModelTransactionPolicy); diff != "" {
			t.Errorf("%s: %s", declared, diff)
		}
	}
}

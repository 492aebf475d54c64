package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// echoTwice asks the step echo behind itself.
const echoTwice = `platform: "ensemble"
input { name: "x" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_INT32 dims: [ -1 ] }
ensemble_scheduling {
  step { model_name: "echo" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "x" value: "t" } }
  step { model_name: "echo" model_version: -1 input_map { key: "x" value: "t" } output_map { key: "x" value: "y" } }
}`

// TestTimingIsToldOverGRPC asks a step and an ensemble of two for their timing by the other protocol. Its parameters
// are typed: only the boolean true asks for it.
func TestTimingIsToldOverGRPC(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.must("model", "push", "echo", step(t, describedStep))
	config := filepath.Join(t.TempDir(), "config.pbtxt")
	if err := os.WriteFile(config, []byte(echoTwice), 0o600); err != nil {
		t.Fatal(err)
	}
	b.must("model", "push", "twice", config)
	connection, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	client := inference.NewGRPCInferenceServiceClient(connection)
	yes := &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}
	no := &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: false}}
	text := &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: "true"}}
	whole := []string{"timing_total_ns", "timing_compute_ns", "timing_guest_ns", "timing_fuel", "timing_memory_bytes", "timing_batch"}
	for _, test := range []struct {
		name, model string
		asked       *inference.InferParameter
		numbers     []string          // above 0
		texts       map[string]string // as they are
	}{
		{name: "a step", model: "echo", asked: yes, numbers: whole},
		{
			name: "an ensemble", model: "twice", asked: yes,
			numbers: append([]string{
				"timing_step_0_compute_ns", "timing_step_1_compute_ns", "timing_step_0_requests",
				"timing_step_1_fuel",
			}, whole...),
			texts: map[string]string{"timing_step_0_model": "echo", "timing_step_1_model": "echo"},
		},
		{name: "not asked", model: "echo"},
		{name: "no", model: "echo", asked: no},
		{name: "a step's own parameter", model: "echo", asked: text},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := &inference.ModelInferRequest{
				ModelName: test.model, Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "INT32", Shape: []int64{2}}},
				RawInputContents: [][]byte{{1, 2, 3, 4, 5, 6, 7, 8}}, Parameters: map[string]*inference.InferParameter{},
			}
			if test.asked != nil {
				req.Parameters["timing"] = test.asked
			}
			got, err := client.ModelInfer(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.RawOutputContents) != 1 || string(got.RawOutputContents[0]) != "\x01\x02\x03\x04\x05\x06\x07\x08" {
				t.Errorf("answered %v", got)
			}
			for _, name := range test.numbers {
				if got.Parameters[name].GetInt64Param() <= 0 {
					t.Errorf("%s is %v", name, got.Parameters[name])
				}
			}
			for name, want := range test.texts {
				if got.Parameters[name].GetStringParam() != want {
					t.Errorf("%s is %v, want %q", name, got.Parameters[name], want)
				}
			}
			if _, told := got.Parameters["timing_total_ns"]; told != (test.numbers != nil) {
				t.Errorf("the answer's parameters are %v", got.Parameters)
			}
		})
	}
}

//go:build gpustub

package gpu

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// plainWay has ONNX Runtime copy, run and wait: the stand-ins copy at once what they are asked for, whatever their streams.
const plainWay = "parameters { key: \"gpu_batch_buckets\" value { string_value: \"off\" } }\n"

// TestAGPUIsChosenByMeasurement runs the built program with two models that leave the kind of device open, on the real
// provider for CUDA, whose kernels do nothing here: one whose answer is its input, which is copied and so is right, is
// served from the GPU, and another one, which it answers wrong, from the CPU.
func TestAGPUIsChosenByMeasurement(t *testing.T) {
	path, _ := driver(t)
	config := "parameters { key: \"gpu_memory_bytes\" value { string_value: \"100000000\" } }\n"
	models := repository(t, map[string]string{"heavy": "max_batch_size: 1\n" + config + plainWay, "mlp": "max_batch_size: 8\n" + config},
		func(name string) *onnxgen.Model {
			if name == "heavy" {
				return onnxgen.Heavy(4)
			}
			return onnxgen.MLP(1)
		})
	b, log := startWith(t, path, models, []string{"gpu.trial_time=2m"}, "heavy", "mlp")
	for name, want := range map[string]struct{ device, state string }{
		"heavy": {"gpu:0", admin.CandidateChosen}, "mlp": {"cpu", admin.CandidateWrong},
	} {
		var detail struct {
			Choice *admin.Choice `json:"choice"`
		}
		_, text, err := b.get("/api/v1/models/" + name + "/versions/1")
		if err != nil || json.Unmarshal([]byte(text), &detail) != nil || detail.Choice == nil || detail.Choice.Candidate("gpu:0") == nil {
			t.Fatalf("%s: %v %s\n%s", name, err, text, log)
		}
		gpu := detail.Choice.Candidate("gpu:0")
		if detail.Choice.Device != want.device || gpu.State != want.state {
			t.Errorf("%s: %s", name, detail.Choice)
		}
		if name == "mlp" && !strings.HasPrefix(gpu.Reason, `output "output" differs by up to `) {
			t.Errorf("why the GPU is excluded: %s", gpu.Reason)
		}
	}
	if err := b.infer(question(t, "mlp", 2)); err != nil {
		t.Error(err)
	}
	if _, err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// ensembleConfig is an ensemble of "first" and "second", FP32 [batch,4] in and out.
const ensembleConfig = `platform: "ensemble"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: 4 }
output { name: "y" data_type: TYPE_FP32 dims: 4 }
output { name: "mid" data_type: TYPE_FP32 dims: 4 }
ensemble_scheduling {
  step { model_name: "first" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "mid" } }
  step { model_name: "second" model_version: -1 input_map { key: "x" value: "mid" } output_map { key: "y" value: "y" } }
}
`

// infer asks for outputs as JSON and returns them by name.
func (b *box) infer(path, body string) map[string][]float32 {
	b.t.Helper()
	status, text := b.send(http.MethodPost, "/v2/models/"+path+"/infer", []byte(body))
	var got struct {
		Outputs []struct {
			Name string    `json:"name"`
			Data []float32 `json:"data"`
		} `json:"outputs"`
	}
	if status != http.StatusOK || json.Unmarshal([]byte(text), &got) != nil {
		b.t.Fatalf("%s answers %d %s", path, status, text)
	}
	outputs := map[string][]float32{}
	for _, out := range got.Outputs {
		outputs[out.Name] = out.Data
	}
	return outputs
}

// wantSums checks that the ensemble answers zeros with these sums.
func (b *box) wantSums(path string, mid, y float32) {
	b.t.Helper()
	got := b.infer(path, zeros)
	if !slices.Equal(got["mid"], []float32{mid, mid, mid, mid}) || !slices.Equal(got["y"], []float32{y, y, y, y}) {
		b.t.Errorf("%s answers %v, want mid %v and y %v", path, got, mid, y)
	}
}

// TestEnsembleFromPushToRollback follows an ensemble of two ONNX models through its life, over a restart.
func TestEnsembleFromPushToRollback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	config := write(t, "sums.pbtxt", []byte(ensembleConfig))
	b.refuses(3, []string{"in ensemble 'sums', step 0: there is no model 'first' on this box"}, "model", "push", "sums", config)
	b.must("model", "push", "first", save(t, biased(1)))
	b.must("model", "push", "second", save(t, biased(10)))
	contains(t, "push", b.must("model", "push", "sums", config), `model "sums" version 1 is live`)
	b.wantSums("sums", 1, 11)

	t.Run("it stays with what it was pushed with", func(t *testing.T) {
		b.must("model", "push", "first", save(t, biased(2)))
		b.wantBias("first", "2", 2)
		b.wantSums("sums", 1, 11)
		b.must("model", "push", "sums", config)
		b.wantSums("sums", 2, 12)
		b.must("model", "rollback", "sums")
		b.wantSums("sums", 1, 11)
		b.must("model", "promote", "sums:2")
	})
	t.Run("what it runs cannot be taken away", func(t *testing.T) {
		b.refuses(4, []string{`model "first" version 1 cannot be deleted while an ensemble pins it: "sums" version 1`}, "model", "rm", "first:1")
		b.refuses(4, []string{`model "second" cannot be deleted while an ensemble pins it`}, "model", "rm", "second")
		if status, text := b.send(http.MethodPost, "/v2/repository/models/second/unload", nil); status != http.StatusConflict || !strings.Contains(text, `while an ensemble runs it: \"sums\" version 2`) {
			t.Errorf("unloading a part: %d %s", status, text)
		}
	})
	t.Run("what is said of it", func(t *testing.T) { wantSumsDescribed(t, b) })
	t.Run("its errors name it", func(t *testing.T) {
		status, text := b.send(http.MethodPost, "/v2/models/sums/infer", []byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[5,4],"data":[`+strings.Repeat("0,", 19)+`0]}]}`))
		if status != http.StatusBadRequest || !strings.Contains(text, "4 for 'sums', got 5") {
			t.Errorf("%d %s", status, text)
		}
	})
	b.stop()
	b = serveReady(t, dir)
	b.wantSums("sums", 2, 12)
	b.wantBias("first", "2", 2)
	b.must("model", "rm", "sums")
	b.must("model", "rm", "first")
	b.stop()
	wantHealthy(t, dir)
}

// wantSumsDescribed checks the configuration, the statistics and the metrics of the ensemble.
func wantSumsDescribed(t *testing.T, b *box) {
	_, config := b.send(http.MethodGet, "/v2/models/sums/config", nil)
	contains(t, "configuration", config, `"platform":"ensemble"`, `"pinned":{"version":2,"digest":"`, `"instance_group":[]`)
	_, stats := b.send(http.MethodGet, "/v2/models/sums/versions/2/stats", nil)
	contains(t, "statistics", stats, `"ensemble_steps":[{"model_name":"first","model_version":"2","success":{"count":`)
	_, metrics := b.send(http.MethodGet, "/metrics", nil)
	contains(t, "metrics", metrics,
		`edgewise_ensemble_step_requests_total{model="sums",result="success",step="1",step_model="second",step_version="1",version="2"}`,
		`edgewise_ensemble_step_seconds_total{model="sums",step="0",step_model="first",step_version="2",version="2"}`,
		`nv_inference_request_success{model="sums",version="2"}`)
	contains(t, "model show", b.must("model", "show", "sums"), "model sums, served", "[batch,4]", "step 0   first    version 2", "step 1   second   version 1")
}

// TestImportOfARepositoryWithEnsembles has an ensemble whose name comes before those of its parts, and another inside a
// third, in Triton's layout with empty version folders.
func TestImportOfARepositoryWithEnsembles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	put := func(model string, version int, bias float32) {
		t.Helper()
		if err := biased(bias).Save(filepath.Join(folder, model, fmt.Sprint(version))); err != nil {
			t.Fatal(err)
		}
	}
	ensemble := func(name string, version int, config string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(folder, name, fmt.Sprint(version)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name, "config.pbtxt"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("first", 1, 1)
	put("second", 1, 10)
	for _, name := range []string{"first", "second"} { // a repository says how its models batch
		if err := os.WriteFile(filepath.Join(folder, name, "config.pbtxt"), []byte("max_batch_size: 8\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ensemble("a_chain", 1, ensembleConfig)
	ensemble("a_chain_of_chains", 1, strings.NewReplacer(`"first"`, `"a_chain"`, `output_map { key: "y" value: "mid" }`, `output_map { key: "y" value: "mid" }`).Replace(ensembleConfig))
	data := t.TempDir()
	b := serveReady(t, data, "--import", folder)
	b.wantSums("a_chain", 1, 11)
	b.wantSums("a_chain_of_chains", 11, 21)
	b.stop()

	put("first", 2, 2)
	ensemble("a_chain", 2, ensembleConfig)
	b = serveReady(t, data)
	contains(t, "import", b.must("model", "import", folder), `"first" version 2: live`, `"a_chain" version 1: there already`, `"a_chain" version 2: live`)
	b.wantSums("a_chain", 2, 12)
	b.wantSums("a_chain_of_chains", 11, 21)
}

// TestConditionAndFanOutOnRealModels asks a scorer about a picture's rows, and a second model about each row, but only
// when the first row's score is high enough.
func TestConditionAndFanOutOnRealModels(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.must("model", "push", "each", save(t, biased(1)))
	b.must("model", "push", "score", save(t, &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:   []onnxgen.Node{{Op: "ReduceMax", In: []string{"x"}, Out: []string{"top"}, Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("keepdims", 0), onnxgen.IntsAttribute("axes", 1)}}},
		Inputs:  []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
		Outputs: []onnxgen.Value{{Name: "top", Type: onnxgen.Float, Dims: onnxgen.Batch()}},
	}}))
	config := write(t, "gate.yaml", []byte(`
platform: ensemble
input: [{name: rows, data_type: TYPE_FP32, dims: [-1, 4]}]
output:
  - {name: scores, data_type: TYPE_FP32, dims: [-1, 1]}
  - {name: better, data_type: TYPE_FP32, dims: [-1, 4]}
ensemble_scheduling:
  step:
    - model_name: score
      input_map: {x: rows}
      output_map: {top: scores}
      fan_out: {input: [x]}
    - model_name: each
      input_map: {x: rows}
      output_map: {y: better}
      fan_out: {input: [x], rows_per_request: 2}
      condition:
        {tensor: scores, operator: GREATER, value: 5, over: ANY, otherwise: SKIP, default_output: {y: {tensor: rows}}}
`))
	b.must("model", "push", "gate", config)
	ask := func(values string) map[string][]float32 {
		return b.infer("gate", `{"inputs":[{"name":"rows","datatype":"FP32","shape":[3,4],"data":[`+values+`]}]}`)
	}
	got := ask("0,1,2,3,4,5,6,7,8,9,10,11")
	if fmt.Sprint(got) != "map[better:[1 2 3 4 5 6 7 8 9 10 11 12] scores:[3 7 11]]" {
		t.Errorf("above the threshold: %v", got)
	}
	got = ask("0,1,2,3,4,5,0,0,0,0,0,0")
	if fmt.Sprint(got) != "map[better:[0 1 2 3 4 5 0 0 0 0 0 0] scores:[3 5 0]]" {
		t.Errorf("below the threshold: %v", got)
	}
	_, stats := b.send(http.MethodGet, "/v2/models/gate/stats", nil)
	contains(t, "statistics", stats, `"rows":6,"skipped":0`, `"rows":3,"skipped":1`)
}

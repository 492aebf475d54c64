package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
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
		if status, text := b.send(http.MethodPost, "/v2/repository/models/second/unload",
			nil); status != http.StatusConflict || !strings.Contains(text, `while an ensemble runs it: \"sums\" version 2`) {
			t.Errorf("unloading a part: %d %s", status, text)
		}
	})
	t.Run("what is said of it", func(t *testing.T) { wantSumsDescribed(t, b) })
	t.Run("its errors name it", func(t *testing.T) {
		status, text := b.send(http.MethodPost, "/v2/models/sums/infer",
			[]byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[5,4],"data":[`+strings.Repeat("0,", 19)+`0]}]}`))
		if status != http.StatusBadRequest || !strings.Contains(text, "4 for 'sums'") {
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
	contains(t, "model show", b.must("model", "show", "sums"), "model sums, served", "[batch,4]",
		"step 0   first    version 2", "step 1   second   version 1")
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
	ensemble("a_chain_of_chains", 1, strings.NewReplacer(`"first"`, `"a_chain"`, `output_map { key: "y" value: "mid" }`,
		`output_map { key: "y" value: "mid" }`).Replace(ensembleConfig))
	data := t.TempDir()
	b := serveReady(t, data, "--import", folder)
	b.wantSums("a_chain", 1, 11)
	b.wantSums("a_chain_of_chains", 11, 21)
	b.stop()

	put("first", 2, 2)
	ensemble("a_chain", 2, ensembleConfig)
	b = serveReady(t, data)
	contains(t, "import", b.must("model", "import", folder), `"first" version 2: live`,
		`"a_chain" version 1: there already`, `"a_chain" version 2: live`)
	b.wantSums("a_chain", 2, 12)
	b.wantSums("a_chain_of_chains", 11, 21)
}

// TestBatchesFormAcrossRequestsToAnEnsemble sends requests at the same time; their steps meet in the queue of the
// model.
func TestBatchesFormAcrossRequestsToAnEnsemble(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	for _, name := range []string{"first", "second"} {
		dir := save(t, biased(1))
		if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"),
			[]byte("max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1000000 }"), 0o644); err != nil {
			t.Fatal(err)
		}
		b.must("model", "push", name, dir)
	}
	b.must("model", "push", "sums", write(t, "sums.pbtxt", []byte(ensembleConfig)))
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			if status, text := b.send(http.MethodPost, "/v2/models/sums/infer", []byte(zeros)); status != http.StatusOK {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	clients.Wait()
	for _, name := range []string{"first", "second"} {
		stats, err := b.client.Statistics(t.Context(), edgewise.ModelID{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if s := stats.ModelStats[0]; s.InferenceCount != 8 || s.ExecutionCount > 4 {
			t.Errorf("%s: %d executions of %d requests", name, s.ExecutionCount, s.InferenceCount)
		}
	}
}

// modelExample returns one of the files in configs/models.
func modelExample(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(real.Root(t), "configs", "models", name)
}

// small makes y = x + 1 and score, the greatest element of each row; both FP32, x and y [batch,4], score [batch].
func small() *onnxgen.Model {
	m := biased(1)
	m.Graph.Nodes = append(m.Graph.Nodes, onnxgen.Node{
		Op: "ReduceMax", In: []string{"x"}, Out: []string{"score"},
		Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("keepdims", 0), onnxgen.IntsAttribute("axes", 1)},
	})
	m.Graph.Outputs = append(m.Graph.Outputs, onnxgen.Value{Name: "score", Type: onnxgen.Float, Dims: onnxgen.Batch()})
	return m
}

// TestTheGateOfTheGuide asks the large model when the small one's score is low, and only then.
func TestTheGateOfTheGuide(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.must("model", "push", "small", save(t, small()))
	b.must("model", "push", "large", save(t, biased(100)))
	b.must("model", "push", "gate", modelExample(t, "gate.yaml"))
	ask := func(values string) string {
		return fmt.Sprint(b.infer("gate", `{"inputs":[{"name":"x","datatype":"FP32","shape":[2,4],"data":[`+values+`]}]}`))
	}
	if got := ask("1,0,0,0, 0,2,0,0"); got != "map[answer:[2 1 1 1 1 3 1 1]]" {
		t.Errorf("both rows are sure: %s", got)
	}
	if got := ask("1,0,0,0, 0,0.5,0,0"); got != "map[answer:[101 100 100 100 100 100.5 100 100]]" {
		t.Errorf("one row is not sure: %s", got)
	}
	_, stats := b.send(http.MethodGet, "/v2/models/gate/stats", nil)
	contains(t, "statistics", stats, `"rows":0,"skipped":1,"stopped":0}]`)

	text, err := os.ReadFile(modelExample(t, "gate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	stops := strings.Replace(strings.Replace(string(text), "otherwise: SKIP", "otherwise: STOP", 1),
		"        default_output: {y: {tensor: guess}}\n", "", 1)
	stops = strings.Replace(stops, "output_map: {y: guess, score: score}", "output_map: {score: score}", 1)
	b.must("model", "push", "gate", write(t, "gate.yaml", []byte(stops)))
	status, answer := b.send(http.MethodPost, "/v2/models/gate/infer",
		[]byte(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,1,1,1]}]}`))
	if status != http.StatusOK {
		t.Errorf("a request that was stopped: %d %s", status, answer)
	}
	contains(t, "a request that was stopped", answer, `"stopped_at":"large"`, `"outputs":[]`, `"sequence_start":false`)
}

// TestTheLinesOfTheGuide asks the demo's models about seven lines through the ensemble, which must answer what the
// models answer line by line.
func TestTheLinesOfTheGuide(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--import", real.Models(t))
	b.must("model", "push", "lines", modelExample(t, "lines.pbtxt"))
	const rows = 7
	lines, squeezed := randomTensor("lines", 1, rows, 3, 48, 320), randomTensor("squeezed", 2, rows, 3, 48, 192)
	r, err := b.client.Infer(t.Context(), &edgewise.Request{
		Model:  edgewise.ModelID{Name: "lines"},
		Inputs: []edgewise.Tensor{lines, squeezed},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if len(r.Outputs) != 2 || r.Outputs[0].Shape.String() != "[7,40,6625]" || r.Outputs[1].Shape.String() != "[7,2]" {
		t.Fatalf("outputs %v%v", r.Outputs[0].Shape, r.Outputs[1].Shape)
	}
	for _, pair := range []struct {
		model string
		in    edgewise.Tensor
		out   edgewise.Tensor
	}{{"ocr_recognize", lines, r.Outputs[0]}, {"ocr_direction", squeezed, r.Outputs[1]}} {
		in, out := len(pair.in.Data)/rows, len(pair.out.Data)/rows
		for row := range rows {
			one := edgewise.Tensor{
				Name: "x", Type: edgewise.FP32, Shape: append(edgewise.Shape{1}, pair.in.Shape[1:]...),
				Data: pair.in.Data[row*in : (row+1)*in],
			}
			alone, err := b.client.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: pair.model}, Inputs: []edgewise.Tensor{one}})
			if err != nil {
				t.Fatal(err)
			}
			if d := distance(alone.Outputs[0].Data, pair.out.Data[row*out:(row+1)*out]); d > 1e-4 {
				t.Errorf("%s, row %d: the ensemble's answer is %v away from the model's", pair.model, row, d)
			}
			alone.Release()
		}
	}
	status, text := b.send(http.MethodPost, "/v2/models/lines/infer", []byte(classesOfOneLine()))
	if status != http.StatusOK || !strings.Contains(text, `:0:0"`) && !strings.Contains(text, `:1:180"`) {
		t.Errorf("the class of a line: %d %s", status, text)
	}
}

// classesOfOneLine asks for the direction of a line as a class, whose name is the part's label.
func classesOfOneLine() string {
	zeros := func(n int) string { return strings.Repeat("0,", n-1) + "0" }
	return `{"inputs":[{"name":"lines","datatype":"FP32","shape":[0,3,48,320],"data":[]},{"name":"squeezed",` +
		`"datatype":"FP32","shape":[1,3,48,192],"data":[` + zeros(3*48*192) + `]}],` +
		`"outputs":[{"name":"upside_down","parameters":{"classification":1}}]}`
}

// randomTensor makes numbers from -1 to 1.
func randomTensor(name string, seed uint64, shape ...int64) edgewise.Tensor {
	t := edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape}
	n, _ := t.Shape.Elements()
	random := rand.New(rand.NewPCG(seed, 0))
	for range n {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(2*random.Float32()-1))
	}
	return t
}

// distance is the greatest difference between two lists of FP32; infinite when their lengths differ.
func distance(a, b []byte) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most := 0.0
	for i := 0; i < len(a); i += 4 {
		x, y := math.Float32frombits(binary.LittleEndian.Uint32(a[i:])), math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
		most = max(most, math.Abs(float64(x-y)))
	}
	return most
}

// TestTheGuideShowsTheExamples compares the guide's blocks with the files that the tests push.
func TestTheGuideShowsTheExamples(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join(real.Root(t), "docs", "guides", "ensembles.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lines.pbtxt", "gate.yaml"} {
		text, err := os.ReadFile(modelExample(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(guide), "\n"+string(text)+"```") {
			t.Errorf("the guide does not show %s", name)
		}
	}
}

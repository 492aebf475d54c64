package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/test/real"
)

// pythonConfigurations are those of the models of backends/python/test/models that are served here.
var pythonConfigurations = map[string]string{
	"add_sub": `backend: "python"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]`,
	"complete": `backend: "python"`,
	"repeat": `backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }`,
	"caller": `backend: "python"
output { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }`,
	"faulty": `backend: "python"
input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }`,
	"metrics": `backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }`,
	"ready": `backend: "python"`,
	"every_input": `backend: "python"
max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "ABOUT" data_type: TYPE_STRING dims: [ 1 ] }
dynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: [ 8 ] }`,
}

// pythonRepository is a model repository of them.
func pythonRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, configuration := range pythonConfigurations {
		if name == "caller" { // it has no input, which a configuration must have
			configuration += "\n" + `input { name: "NOTHING" data_type: TYPE_FP32 dims: [ 1 ] optional: true }`
		}
		if name == "ready" {
			configuration += "\n" + `input { name: "NOTHING" data_type: TYPE_FP32 dims: [ 1 ] optional: true }
output { name: "NONE" data_type: TYPE_FP32 dims: [ 1 ] }`
		}
		source, err := os.ReadFile(filepath.Join(real.Root(t), "backends/python/test/models", name, "1/model.py"))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, name, "1"), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name, "config.pbtxt"), []byte(configuration), 0o644)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name, "1/model.py"), source, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pythonArchive is an upload of a model with the text of its execute, or a whole file, and other files.
func pythonArchive(t *testing.T, configuration, source string, more map[string]string) []byte {
	t.Helper()
	if !strings.Contains(source, "class TritonPythonModel") {
		source = "import numpy as np\nimport triton_python_backend_utils as pb\n" +
			"def answer(*texts):\n  return pb.InferenceResponse([pb.Tensor('OUT', np.array(texts, object))])\n" +
			"class TritonPythonModel:\n  def execute(self, requests):\n    " + strings.ReplaceAll(source, "\n", "\n    ") + "\n"
	}
	if configuration == "" {
		configuration = `backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] optional: true }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }`
	}
	files := map[string]string{"config.pbtxt": configuration, "model.py": source}
	maps.Copy(files, more)
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))})
		if err == nil {
			_, err = w.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// pushPython uploads a version, which must go live.
func (b *box) pushPython(t *testing.T, name, configuration, source string, more map[string]string) {
	t.Helper()
	status, answer := b.tryPython(t, name, configuration, source, more)
	if status != http.StatusCreated {
		t.Fatalf("uploading %s: %d %s\n%s", name, status, answer, b.output())
	}
}

func (b *box) tryPython(t *testing.T, name, configuration, source string, more map[string]string) (int, string) {
	t.Helper()
	return b.send(http.MethodPost, "/api/v1/models/"+name+"/versions", pythonArchive(t, configuration, source, more),
		"Content-Type", mimeTar)
}

// pythonAnswer is what a request gave.
type pythonAnswer struct {
	Error   string
	Outputs []struct {
		Name     string
		Datatype string
		Data     []any
	}
}

// askPython sends a request in JSON and returns the first output's elements as text, or the error.
func (b *box) askPython(t *testing.T, model, body string) string {
	t.Helper()
	status, text := b.send(http.MethodPost, "/v2/models/"+model+"/infer", []byte(body), "Content-Type", mimeJSON)
	var a pythonAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%s: %d %s: %v", model, status, text, err)
	}
	if a.Error != "" {
		return a.Error
	}
	if len(a.Outputs) == 0 {
		return ""
	}
	return strings.Trim(fmt.Sprint(a.Outputs[0].Data), "[]")
}

// none is a request without inputs.
const none = `{"inputs":[]}`

func strIn(text string) string {
	return fmt.Sprintf(`{"inputs":[{"name":"IN","datatype":"BYTES","shape":[1],"data":[%q]}]}`, text)
}

// wantPython asks until the model gives an answer: a process that has died is being started again.
func (b *box) wantPython(t *testing.T, model, body, want string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := b.askPython(t, model, body)
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s answers %q, want %q\n%s", model, got, want, b.output())
		}
	}
}

func TestPythonModels(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--import", pythonRepository(t), "--set", "metrics.address=127.0.0.1:0")
	t.Run("over REST and gRPC", func(t *testing.T) { pythonAdds(t, b) })
	t.Run("a completed configuration", func(t *testing.T) {
		_, config := b.send(http.MethodGet, "/v2/models/complete/config", nil)
		for _, want := range []string{`"max_batch_size":4`, `"name":"IN"`, `"name":"OUT"`, `"optional":true`, `"dynamic_batching"`} {
			if !strings.Contains(config, want) {
				t.Errorf("%s lacks %s", config, want)
			}
		}
		if got := b.askPython(t, "complete", `{"inputs":[{"name":"IN","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}`); got != "2 4 6 8" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("what is shown", func(t *testing.T) {
		contains(t, "model show", b.must("model", "show", "add_sub"), "INPUT1", "FP32", "[4]",
			"served by the backend python from model.py: Python 3.", "NumPy")
		contains(t, "model list in JSON", b.must("--output", "json", "model", "list"), `"kind": "python"`)
	})
	t.Run("errors", func(t *testing.T) { pythonErrors(t, b) })
	t.Run("streams", func(t *testing.T) { pythonStreams(t, b) })
	t.Run("requests to other models", func(t *testing.T) { pythonCalls(t, b) })
	t.Run("batches", func(t *testing.T) { pythonBatches(t, b) })
	t.Run("readiness", func(t *testing.T) { pythonReadiness(t, b) })
	t.Run("metrics", func(t *testing.T) {
		b.askPython(t, "metrics", `{"inputs":[{"name":"IN","datatype":"FP32","shape":[2],"data":[7,8]}]}`)
		page, _ := get(t, "http://"+b.metrics+"/metrics")
		for _, want := range []string{`seen{model="metrics",version="1"} 1`, `last{model="metrics",version="1"} 7`, `sizes_bucket{a="b"`} {
			if !strings.Contains(page, want) {
				t.Errorf("the metrics page lacks %s", want)
			}
		}
	})
	b.stop()
}

func pythonAdds(t *testing.T, b *box) {
	if got := b.askPython(t, "add_sub", `{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[4],"data":[1,2,3,4]},
		{"name":"INPUT1","datatype":"FP32","shape":[4],"data":[10,20,30,40]}],"outputs":[{"name":"OUTPUT0"}]}`); got != "11 22 33 44" {
		t.Errorf("over REST: %s", got)
	}
	in := func(name string) *inference.ModelInferRequest_InferInputTensor {
		return &inference.ModelInferRequest_InferInputTensor{Name: name, Datatype: "FP32", Shape: []int64{4}}
	}
	r, err := inference.NewGRPCInferenceServiceClient(b.dial(t)).ModelInfer(t.Context(), &inference.ModelInferRequest{
		ModelName:        "add_sub",
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{in("INPUT0"), in("INPUT1")},
		RawInputContents: [][]byte{floatBytes([]float32{1, 2, 3, 4}), floatBytes([]float32{1, 1, 1, 1})},
	})
	if err != nil || len(r.RawOutputContents) != 2 || !bytes.Equal(r.RawOutputContents[1], floatBytes([]float32{0, 1, 2, 3})) {
		t.Errorf("over gRPC: %v %v", r, err)
	}
}

func (b *box) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// pythonErrors are what execute may do wrong. The next request is answered.
func pythonErrors(t *testing.T, b *box) {
	const failed = "Failed to process the request(s) for model 'faulty"
	for what, want := range map[string][]string{
		"default_error": {"an error"},
		"raises":        {failed, "ValueError: out of luck", "1/model.py(", "): raises"},
		"exits":         {failed, "SystemExit: 3"},
		"short":         {failed, "Number of InferenceResponse objects do not match the number of InferenceRequest objects"},
		"tuples":        {failed, "Expected a list in the execute return, found type '<class 'tuple'>'."},
		"numbers":       {failed, "Expected an 'InferenceResponse' object in the execute function return list"},
		"none":          {"the model released the request without its last response"},
		"nothing":       {"the model released the request without its last response"},
		"wrong_type":    {"output 'OUT' has data type STRING, the configuration of the model says FP32"},
		"dies":          {"its process died"},
	} {
		got := b.askPython(t, "faulty", strIn(what))
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %q, want %q in it", what, got, part)
			}
		}
		b.wantPython(t, "faulty", strIn("sender"), "1")
	}
	for what, want := range map[string]string{"sender": "1", "errors": "1", "double": "1.5", "undeclared": "1", "again": "1"} {
		if got := b.askPython(t, "faulty", strIn(what)); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
}

// pythonStreams reads the responses of a decoupled model, and leaves a stream early.
func pythonStreams(t *testing.T, b *box) {
	_, events := b.send(http.MethodPost, "/v2/models/repeat/generate_stream", []byte(`{"IN":[5,6,7]}`), "Content-Type", mimeJSON)
	if strings.Count(events, "data: ") != 3 || strings.Index(events, `"OUT":5`) > strings.Index(events, `"OUT":7`) {
		t.Errorf("generate_stream: %s", events)
	}
	request := func(n int) *inference.ModelInferRequest {
		return &inference.ModelInferRequest{
			ModelName: "repeat", RawInputContents: [][]byte{make([]byte, 4*n)},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "IN", Datatype: "INT32", Shape: []int64{int64(n)}}},
		}
	}
	stream, err := inference.NewGRPCInferenceServiceClient(b.dial(t)).ModelStreamInfer(t.Context())
	if err == nil {
		err = stream.Send(request(1000))
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		r, err := stream.Recv()
		if err != nil || r.ErrorMessage != "" || r.InferResponse.Parameters["index"].GetInt64Param() != int64(i) {
			t.Fatalf("response %d: %v %v", i, r, err)
		}
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("after the last response: %v", err)
	}
	ctx, leave := context.WithCancel(t.Context())
	if stream, err = inference.NewGRPCInferenceServiceClient(b.dial(t)).ModelStreamInfer(ctx); err == nil {
		err = stream.Send(request(1_000_000))
	}
	if err == nil {
		_, err = stream.Recv()
	}
	leave()
	if err != nil {
		t.Fatal(err)
	}
	b.awaitOutput(t, "cancelled after")
}

// awaitOutput waits until the box has logged a text.
func (b *box) awaitOutput(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(b.output(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log lacks %q:\n%s", text, b.output())
		}
	}
}

// pythonCalls lets models ask others, and themselves.
func pythonCalls(t *testing.T, b *box) {
	b.upload("biased", "", biased(3))
	call := `request = pb.InferenceRequest(model_name='%s', requested_output_names=['%s'],
    inputs=[pb.Tensor('%s', np.zeros((1, 4), np.float32))], trace=requests[0].trace())
response = request.exec()
if response.has_error():
    return [pb.InferenceResponse(error=response.error())]
return [answer(*[str(x) for x in response.output_tensors()[0].as_numpy().ravel()])]`
	b.pushPython(t, "asks", "", fmt.Sprintf(call, "biased", "y", "x"), nil)
	if got := b.askPython(t, "asks", none); got != "3.0 3.0 3.0 3.0" {
		t.Errorf("a request to an ONNX model: %q", got)
	}
	b.pushPython(t, "asks_itself", "", fmt.Sprintf(call, "asks_itself", "OUT", "IN"), nil)
	if got := b.askPython(t, "asks_itself", none); !strings.Contains(got, "asks_itself") {
		t.Errorf("a request to itself: %q", got)
	}
	b.pushPython(t, "streams", "", `request = pb.InferenceRequest(model_name='repeat', requested_output_names=['OUT'],
    inputs=[pb.Tensor('IN', np.arange(5, dtype=np.int32))])
return [answer(*[str(r.output_tensors()[0].as_numpy()[0]) for r in request.exec(decoupled=True) if r.output_tensors()])]`, nil)
	if got := b.askPython(t, "streams", none); got != "0 1 2 3 4" {
		t.Errorf("a request to a decoupled model: %q", got)
	}
}

// pythonBatches counts: eight requests at a time are fewer executions than requests.
func pythonBatches(t *testing.T, b *box) {
	var all sync.WaitGroup
	largest := make(chan float64, 32)
	for range cap(largest) {
		all.Go(func() {
			text := b.askPython(t, "every_input", `{"inputs":[{"name":"IN","datatype":"FP32","shape":[1,1],"data":[1]}]}`)
			var about struct{ Batch float64 }
			if err := json.Unmarshal([]byte(text), &about); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			largest <- about.Batch
		})
	}
	all.Wait()
	close(largest)
	most := 0.0
	for n := range largest {
		most = max(most, n)
	}
	if most < 2 || most > 8 {
		t.Errorf("the largest batch has %v requests, want 2 to 8", most)
	}
	_, statistics := b.send(http.MethodGet, "/v2/models/every_input/stats", nil)
	var s struct {
		ModelStats []struct {
			InferenceCount int `json:"inference_count"`
			ExecutionCount int `json:"execution_count"`
		} `json:"model_stats"`
	}
	if err := json.Unmarshal([]byte(statistics), &s); err != nil || len(s.ModelStats) != 1 {
		t.Fatalf("%s: %v", statistics, err)
	}
	if got := s.ModelStats[0]; got.InferenceCount != 32 || got.ExecutionCount > 16 {
		t.Errorf("%d requests in %d executions", got.InferenceCount, got.ExecutionCount)
	}
}

func pythonReadiness(t *testing.T, b *box) {
	if status, _ := b.send(http.MethodGet, "/v2/models/ready/ready", nil); status != http.StatusOK {
		t.Errorf("the model says that it is ready, and the box answers %d", status)
	}
	b.askPython(t, "ready", none)
	if status, text := b.send(http.MethodGet, "/v2/models/ready/ready", nil); status == http.StatusOK {
		t.Errorf("the model says that it is not ready, and the box answers %d %s", status, text)
	}
}

// TestPythonModelsThatDoNotLoad pushes what cannot be served. The live version stays.
func TestPythonModelsThatDoNotLoad(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	impatientBackend(t, folder)
	b := serveReady(t, t.TempDir(), "--set", "engine.backends="+folder)
	b.pushPython(t, "good", "", "return [answer('good') for _ in requests]", nil)
	class := "class TritonPythonModel:\n"
	for name, m := range map[string]struct{ configuration, source, want string }{
		"syntax":  {"", "x = 1\n" + class + "  def execute(:\n", "SyntaxError: invalid syntax (1/model.py, line 3)"},
		"import":  {"", "import os\nimport no_such_thing\n" + class + "  pass\n", "No module named 'no_such_thing'"},
		"nothing": {"", class + "  pass\n", "does not implement `execute` method"},
		"raises": {"", class +
			"  def initialize(self, args):\n    raise ValueError('no')\n  def execute(self, r): pass\n", "/model.py(3): initialize"},
		"exits": {"", class + "  def initialize(self, args):\n    import os; os._exit(7)\n  def execute(self, r): pass\n", "its process died"},
		"endless": {
			`backend: "impatient" input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }`,
			class + "  def initialize(self, args):\n    while True: pass\n  def execute(self, r): pass\n", "its load was ended",
		},
		"conflict": {
			`backend: "python" input { name: "IN" data_type: TYPE_INT8 dims: [ 1 ] }`,
			"import triton_python_backend_utils as pb\n" + class + "  @staticmethod\n  def auto_complete_config(c):\n" +
				"    c.add_input({'name': 'IN', 'data_type': 'TYPE_FP32', 'dims': [1]})\n    return c\n  def execute(self, r): pass\n",
			"configuration expects datatype TYPE_INT8 for input 'IN', model provides TYPE_FP32",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := b.tryPython(t, "good", m.configuration, m.source, nil)
			var text struct{ Error string }
			if err := json.Unmarshal([]byte(answer), &text); err != nil || status < 400 || !strings.Contains(text.Error, m.want) {
				t.Errorf("got %d %s, want %q in it", status, answer, m.want)
			}
			if got := b.askPython(t, "good", none); got != "good" {
				t.Errorf("the live version answers %q", got)
			}
		})
	}
	b.stop()
}

// impatientBackend makes a backend of Python models with a short load timeout.
func impatientBackend(t *testing.T, folder string) {
	t.Helper()
	source := filepath.Join(real.Root(t), "backends/python")
	if err := os.CopyFS(filepath.Join(folder, "impatient"), os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "impatient", "backend.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = append(bytes.Replace(text, []byte("platforms: [python]"), []byte("platforms: [impatient]"), 1), "load_timeout: 3s\n"...)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestAPythonModelStaysInItsSandbox lets a model try what it may not.
func TestAPythonModelStaysInItsSandbox(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	secret := write(t, "secret", []byte("secret"))
	b.pushPython(t, "prisoner", "", `import os, socket, subprocess, threading, urllib.request
def tried(what):
    try:
        what()
        return 'done'
    except Exception as error:
        return type(error).__name__
thread = threading.Thread(target=lambda: None)
return [answer(
    tried(lambda: open('`+secret+`').read()), tried(lambda: open('/etc/shadow').read()), tried(lambda: os.listdir('/proc/1')),
    tried(lambda: open('/tmp/written', 'w')), tried(lambda: open(os.path.join(pb.get_model_dir(), 'written'), 'w')),
    tried(lambda: socket.create_connection(('127.0.0.1', `+b.address[strings.LastIndex(b.address, ":")+1:]+`), 1)),
    tried(lambda: subprocess.run(['/bin/true'])), tried(os.fork), tried(lambda: os.kill(os.getppid(), 0)),
    tried(thread.start), ' '.join(sorted(os.environ)))]`, nil)
	got := strings.Fields(b.askPython(t, "prisoner", none))
	for i, what := range []string{
		"reads another file", "reads /etc/shadow", "lists a process", "writes to /tmp", "writes to its folder", "connects",
		"starts a program", "forks",
	} {
		if len(got) <= i || got[i] == "done" {
			t.Errorf("a model %s: %q", what, got)
		}
	}
	if len(got) < 10 || got[9] != "done" {
		t.Errorf("a model starts no thread: %q", got)
	}
	b.stop()
}

// TestAPythonModelThatFailsHurtsOnlyItself floods the log, dies of a wrong address, and eats memory.
func TestAPythonModelThatFailsHurtsOnlyItself(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.pushPython(t, "other", "", "return [answer('other') for _ in requests]", nil)
	b.pushPython(t, "bad", `backend: "python"
input { name: "IN" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }`, `what = requests[0].inputs()[0].as_numpy()[0]
if what == b'flood':
    for i in range(20000):
        print('flooded', i)
if what == b'segfault':
    import ctypes
    ctypes.string_at(0)
if what == b'memory':
    kept = [bytearray(b'x' * (64 << 20)) for _ in range(100)]
return [answer('well') for _ in requests]`, nil)
	b.wantPython(t, "bad", strIn("flood"), "well")
	if n := strings.Count(b.output(), "flooded "); n == 0 || n > 1000 {
		t.Errorf("%d of 20,000 printed lines are in the log", n)
	}
	for _, what := range []string{"segfault", "memory"} {
		if got := b.askPython(t, "bad", strIn(what)); got == "well" {
			t.Errorf("%s: the model answers", what)
		}
		if got := b.askPython(t, "other", none); got != "other" {
			t.Errorf("after %s another model answers %q", what, got)
		}
		b.wantPython(t, "bad", strIn("nothing"), "well")
	}
	b.stop()
}

// TestAPythonModelBringsItsPackages uploads versions with environments of their own.
func TestAPythonModelBringsItsPackages(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	version := strings.TrimSpace(tool(t, "python3", "/usr/bin/python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"))
	packages := "/lib/" + version + "/site-packages/its_own.py"
	source := "import its_own\nreturn [answer(its_own.x)]"
	b.pushPython(t, "venv", "", source, map[string]string{"venv" + packages: "x = 'venv'"})
	named := `backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] optional: true }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }
parameters { key: "EXECUTION_ENV_PATH" value { string_value: "%s" } }`
	b.pushPython(t, "named", fmt.Sprintf(named, "$$TRITON_MODEL_DIRECTORY/env"), source, map[string]string{"env" + packages: "x = 'named'"})
	for _, model := range []string{"venv", "named"} {
		if got := b.askPython(t, model, none); got != model {
			t.Errorf("%s answers %q", model, got)
		}
	}
	outside := t.TempDir()
	status, answer := b.tryPython(t, "outside", fmt.Sprintf(named, outside), source, nil)
	if status < 400 || !strings.Contains(answer, "outside of what a model may read") {
		t.Errorf("an environment outside: %d %s", status, answer)
	}
	b.stop()
}

// TestAFolderInTritonsLayoutIsPushed pushes a model with its files: the configuration stands beside folders of versions.
func TestAFolderInTritonsLayoutIsPushed(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	folder := t.TempDir()
	source := strings.Replace(stateful, "import os\n", "import os\nimport part\n", 1)
	for name, content := range map[string]string{
		"config.pbtxt": statefulConfiguration, "1/model.py": "broken", "2/model.py": source, "2/part.py": "# of the model",
	} {
		path := filepath.Join(folder, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.must("model", "push", "sums", folder)
	b.sumsOf(t, 2)
}

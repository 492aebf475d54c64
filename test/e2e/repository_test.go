package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// repositoryOf makes a repository on disk.
func repositoryOf(t *testing.T, models map[string]*onnxgen.Model) string {
	t.Helper()
	dir := t.TempDir()
	for folder, m := range models {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := m.Save(filepath.Join(dir, folder)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ports are free ports, for a command line that names them.
func ports(t *testing.T, n int) []string {
	t.Helper()
	var list []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		list = append(list, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return list
}

// tritonBox starts the program as tritonserver is started: with Triton's own flags and nothing else.
func tritonBox(t *testing.T, arguments ...string) (b *box, metrics string) {
	t.Helper()
	p := ports(t, 3)
	b = serveAs(t, []string{"TMPDIR=" + t.TempDir()},
		append([]string{"--http-port", p[0], "--grpc-port=" + p[1], "--metrics-port", p[2]}, arguments...))
	return b, "http://127.0.0.1:" + p[2]
}

// TestATritonCommandLineWorks starts the program with a command line of tritonserver's and drives model control over
// REST.
func TestATritonCommandLineWorks(t *testing.T) {
	t.Parallel()
	dir := repositoryOf(t, map[string]*onnxgen.Model{"one/1": biased(1), "one/3": biased(3), "two/1": biased(2)})
	files := t.TempDir()
	logFile, traceFile := filepath.Join(files, "log"), filepath.Join(files, "trace.json")
	b, metrics := tritonBox(t, "--model-repository="+dir, "--model-control-mode", "explicit", "--load-model=one", "--strict-readiness", "true",
		"--exit-timeout-secs=20", "--http-thread-count=4", "--pinned-memory-pool-byte-size", "0", "--id=box", "--log-file",
		logFile, "--log-format=default",
		"--trace-config", "level=TIMESTAMPS", "--trace-config", "rate=1", "--trace-config", "triton,file="+traceFile)
	b.awaitReady()
	ask := func(model string, bias int) wire {
		return wire{
			"infer", "POST", "/v2/models/" + model + "/infer", zeros, nil, 200,
			fmt.Sprintf(`"data":[%d,%d,%d,%d]`, bias, bias, bias, bias),
		}
	}
	two, err := json.Marshal(map[string]any{"parameters": map[string]string{
		"config":            "{}",
		"file:5/model.onnx": base64.StdEncoding.EncodeToString(biased(5).Bytes()),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []wire{
		{"metadata", "GET", "/v2", "", nil, 200, `"name":"box"`},
		{"index", "POST", "/v2/repository/index", "", nil, 200, `=[{"name":"one","version":"3","state":"READY"},{"name":"two"}]`},
		ask("one", 3),
		{"not loaded", "POST", "/v2/models/two/infer", zeros, nil, 404, "Request for unknown model: 'two' is not found"},
		{"load", "POST", "/v2/repository/models/two/load", "", nil, 200, "="},
		ask("two", 2),
		{
			"load with a configuration", "POST", "/v2/repository/models/one/load",
			`{"parameters":{"config":"{\"version_policy\":{\"all\":{}}}"}}`, nil, 200, "=",
		},
		ask("one/versions/1", 1),
		{"load with files", "POST", "/v2/repository/models/two/load", string(two), nil, 200, "="},
		ask("two", 5),
		{
			"a file outside", "POST", "/v2/repository/models/two/load", `{"parameters":{"config":"{}","file:../x":""}}`, nil,
			400, "must stay within model directory",
		},
		{"load as it stands", "POST", "/v2/repository/models/two/load", "", nil, 200, "="},
		ask("two", 2),
		{"unload", "POST", "/v2/repository/models/two/unload", `{"parameters":{"unload_dependents":false}}`, nil, 200, "="},
		{
			"load of a model that is not there", "POST", "/v2/repository/models/three/load", "", nil, 400,
			"failed to load 'three', failed to poll from model repository",
		},
		{
			"ready index", "POST", "/v2/repository/index", `{"ready":true}`, nil, 200,
			`=[{"name":"one","version":"1","state":"READY"},{"name":"one","version":"3","state":"READY"}]`,
		},
	} {
		b.exchange(t, w)
	}
	page, _ := get(t, metrics+"/metrics")
	contains(t, "metrics", page, `nv_inference_request_success{model="one",version="3"} 1`, "nv_cpu_utilization")
	if other, _ := get(t, metrics+"/other"); other != "" {
		t.Errorf("another path answers %q", other)
	}
	b.stop()
	logged, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "the log", string(logged), `has no effect here flag=--http-thread-count`, `flag=--pinned-memory-pool-byte-size`)
	traced, err := os.ReadFile(traceFile)
	if err != nil {
		t.Fatal(err)
	}
	var traces []map[string]any
	if err := json.Unmarshal(traced, &traces); err != nil || !strings.Contains(string(traced), `"model_name":"one"`) ||
		!strings.Contains(string(traced), "COMPUTE_START") {
		t.Errorf("%v: %.500s", err, traced)
	}
}

func get(t *testing.T, url string) (body string, status int) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), resp.StatusCode
}

// TestPollingFollowsTheFolder changes a repository under a box that polls.
func TestPollingFollowsTheFolder(t *testing.T) {
	t.Parallel()
	dir := repositoryOf(t, map[string]*onnxgen.Model{"one/1": biased(1)})
	b, _ := tritonBox(t, "--model-repository", dir, "--model-control-mode=poll", "--repository-poll-secs=1", "--allow-metrics=false")
	b.awaitReady()
	b.exchange(t, wire{
		"load", "POST", "/v2/repository/models/one/load", "", nil, 503,
		"explicit model load / unload is not allowed if polling is enabled",
	})
	if err := os.MkdirAll(filepath.Join(dir, "one", "2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := biased(2).Save(filepath.Join(dir, "one", "2")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if _, got := b.send("POST", "/v2/models/one/infer", []byte(zeros)); strings.Contains(got, "[2,2,2,2]") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the new version does not come:\n%s", b.output())
		}
	}
	b.stop()
}

// TestABrokenModelEndsTheStart shows what --exit-on-error does.
func TestABrokenModelEndsTheStart(t *testing.T) {
	t.Parallel()
	dir := repositoryOf(t, map[string]*onnxgen.Model{"good/1": biased(1)})
	if err := os.MkdirAll(filepath.Join(dir, "bad", "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad", "1", "model.onnx"), []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := ports(t, 3)
	flags := []string{"serve", "--model-repository", dir, "--http-port", p[0], "--grpc-port", p[1], "--metrics-port", p[2]}
	refuses(t, 4, []string{"failed to load all models: load failed for model 'bad': version 1 is at UNAVAILABLE state"}, flags...)
	refuses(t, 2, []string{"unknown flag: --no-such-flag"}, append(flags, "--no-such-flag=1")...)

	b, _ := tritonBox(t, "--model-repository", dir, "--exit-on-error=false")
	b.awaitReady()
	b.exchange(t, wire{"the good one", "POST", "/v2/models/good/infer", zeros, nil, 200, "[1,1,1,1]"})
	b.exchange(t, wire{"not ready", "GET", "/v2/health/ready", "", nil, 400, "="})
	b.exchange(t, wire{
		"the reason", "POST", "/v2/repository/index", "", nil, 200,
		`{"name":"bad","version":"1","state":"UNAVAILABLE","reason":"model file`,
	})
	b.stop()
}

// TestAFolderOfOneVersionIsServed takes what KServe mounts: the files of a model, and no repository around them.
func TestAFolderOfOneVersionIsServed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "models")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := onnxgen.Identity(edgewise.FP32, onnxgen.Batch(4)...).Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	for name, arguments := range map[string][]string{
		"models": {"--model-repository", dir},
		"sorter": {"--model-repository", dir, "--set", "repository.name=sorter"},
	} {
		b, _ := tritonBox(t, arguments...)
		b.awaitReady()
		b.exchange(t, wire{"infer", "POST", "/v2/models/" + name + "/infer", zeros, nil, 200, "[0,0,0,0]"})
		b.stop()
	}
}

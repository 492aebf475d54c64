package e2e

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

var tritonSources = flag.String("e2e.triton-sources", "",
	"a folder with copies of Triton's repositories python_backend, client and common; the ports 8000 to 8002 are free")

// tritonExample is an example of Triton's Python backend: a client, and the models that it asks.
type tritonExample struct {
	client string
	// models are by name the files of their versions and of their configurations, "" where the example has none.
	models map[string][2]string
	says   string
}

// What several examples ask.
var (
	exampleAddSub  = [2]string{"add_sub/model.py", "add_sub/config.pbtxt"}
	examplePytorch = [2]string{"pytorch/model.py", "pytorch/config.pbtxt"}
	exampleSquare  = [2]string{"decoupled/square_model.py", "decoupled/square_config.pbtxt"}
)

var tritonExamples = []tritonExample{
	{"add_sub/client.py", map[string][2]string{"add_sub": exampleAddSub}, "PASS: add_sub"},
	{"auto_complete/client.py", map[string][2]string{
		"nobatch_auto_complete": {"auto_complete/nobatch_model.py"}, "batch_auto_complete": {"auto_complete/batch_model.py"},
	}, "PASS: auto_complete"},
	{"bls/sync_client.py", map[string][2]string{
		"add_sub": exampleAddSub, "pytorch": examplePytorch, "bls_sync": {"bls/sync_model.py", "bls/sync_config.pbtxt"},
	}, "PASS: BLS Sync"},
	{"bls/async_client.py", map[string][2]string{
		"add_sub": exampleAddSub, "pytorch": examplePytorch, "bls_async": {"bls/async_model.py", "bls/async_config.pbtxt"},
	}, "PASS: BLS Async"},
	{"bls_decoupled/sync_client.py", map[string][2]string{
		"square_int32": exampleSquare, "bls_decoupled_sync": {"bls_decoupled/sync_model.py", "bls_decoupled/sync_config.pbtxt"},
	}, "PASS: BLS Decoupled Sync"},
	{"bls_decoupled/async_client.py", map[string][2]string{
		"square_int32": exampleSquare, "bls_decoupled_async": {"bls_decoupled/async_model.py", "bls_decoupled/async_config.pbtxt"},
	}, "PASS: BLS Decoupled Async"},
	{"custom_metrics/client.py", map[string][2]string{
		"custom_metrics": {"custom_metrics/model.py", "custom_metrics/config.pbtxt"},
	}, "PASS: custom_metrics"},
	{"decoupled/repeat_client.py", map[string][2]string{
		"repeat_int32": {"decoupled/repeat_model.py", "decoupled/repeat_config.pbtxt"},
	}, "PASS: repeat_int32"},
	{"decoupled/square_client.py", map[string][2]string{"square_int32": exampleSquare}, "PASS: square_int32"},
	{"pytorch/client.py", map[string][2]string{"pytorch": examplePytorch}, "PASS: pytorch"},
}

// TestTritonsExamples runs the examples of Triton's Python backend as they are, with Triton's own clients.
func TestTritonsExamples(t *testing.T) {
	if *tritonSources == "" {
		t.Skip("no -e2e.triton-sources is given: make triton-examples TRITON=folder runs Triton's examples")
	}
	site := tritonClient(t)
	for _, example := range tritonExamples {
		t.Run(strings.TrimSuffix(example.client, ".py"), func(t *testing.T) {
			repository := t.TempDir()
			for name, files := range example.models {
				copyExample(t, files[0], filepath.Join(repository, name, "1", "model.py"))
				copyExample(t, files[1], filepath.Join(repository, name, "config.pbtxt"))
			}
			b := serveTriton(t, repository)
			if out := exampleClient(t, site, example.client); !strings.Contains(out, example.says) {
				t.Errorf("the client says\n%s\nand the box\n%s", out, b.output())
			}
			b.stop()
		})
	}
	t.Run("preprocessing/client", func(t *testing.T) { examplePreprocessing(t, site) })
}

// examplePreprocessing runs the ensemble of the example. Its network is one of TensorRT there, and of ONNX here.
func examplePreprocessing(t *testing.T, site string) {
	repository := t.TempDir()
	const models = "preprocessing/model_repository/"
	copyExample(t, "preprocessing/model.py", filepath.Join(repository, "preprocess/1/model.py"))
	for _, file := range []string{
		"preprocess/config.pbtxt", "ensemble_python_resnet50/config.pbtxt", "resnet50_trt/config.pbtxt", "resnet50_trt/labels.txt",
	} {
		copyExample(t, models+file, filepath.Join(repository, file))
	}
	err := os.MkdirAll(filepath.Join(repository, "ensemble_python_resnet50/1"), 0o755)
	for from, to := range map[string]string{"tensorrt_plan": "onnxruntime_onnx", "3, -1, -1": "3, 224, 224"} {
		if err == nil {
			err = rewrite(filepath.Join(repository, "resnet50_trt/config.pbtxt"), regexp.MustCompile(from), to)
		}
	}
	network := filepath.Join(repository, "resnet50_trt/1/model.onnx")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(network), 0o755)
	}
	if err == nil {
		err = os.WriteFile(network, onnxgen.ResNet50(1).Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := serveTriton(t, repository)
	labels := filepath.Join(*tritonSources, "python_backend/examples", models, "resnet50_trt/labels.txt")
	out := exampleClient(t, site, "preprocessing/client.py", "--label_file", labels,
		"--image", filepath.Join(real.Root(t), "configs/demo/samples/face.jpg"))
	if !strings.Contains(out, "Result is class: ") {
		t.Errorf("the client says\n%s\nand the box\n%s", out, b.output())
	}
	b.stop()
}

// serveTriton serves a repository at Triton's ports, with Triton's flags.
func serveTriton(t *testing.T, repository string) *box {
	t.Helper()
	b := serveAs(t, nil, []string{
		"--model-repository", repository, "--set", "data_dir=" + t.TempDir(), "--set", "store.reserve_bytes=0",
	})
	b.awaitReady()
	return b
}

// exampleClient runs a client of the examples and returns what it prints.
func exampleClient(t *testing.T, site, file string, arguments ...string) string {
	t.Helper()
	client := exec.CommandContext(t.Context(), "/usr/bin/python3",
		append([]string{filepath.Join(*tritonSources, "python_backend/examples", file)}, arguments...)...)
	client.Env = append(os.Environ(), "PYTHONPATH="+site, "PYTHONDONTWRITEBYTECODE=1")
	out, err := client.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// copyExample copies a file of the examples; "" is none.
func copyExample(t *testing.T, file, to string) {
	t.Helper()
	if file == "" {
		return
	}
	data, err := os.ReadFile(filepath.Join(*tritonSources, "python_backend/examples", file))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tritonClient makes the package tritonclient of its sources, as Triton's build does, and returns the folder that it is in.
func tritonClient(t *testing.T) string {
	t.Helper()
	site, protocol := t.TempDir(), filepath.Join(*tritonSources, "common/protobuf")
	own := filepath.Join(site, "tritonclient")
	if err := os.CopyFS(own, os.DirFS(filepath.Join(*tritonSources, "client/src/python/library/tritonclient"))); err != nil {
		t.Fatal(err)
	}
	const missing = "protoc and its plug-in: make grpc-client"
	tool(t, missing, "protoc", "-I", protocol, "--python_out="+site, "--grpc_python_out="+site,
		"--plugin=protoc-gen-grpc_python="+find(t, missing, "grpc_python_plugin"),
		filepath.Join(protocol, "grpc_service.proto"), filepath.Join(protocol, "model_config.proto"))
	for from, to := range map[string]string{
		"model_config_pb2.py": "model_config_pb2.py", "grpc_service_pb2.py": "service_pb2.py",
		"grpc_service_pb2_grpc.py": "service_pb2_grpc.py",
	} {
		to = filepath.Join(own, "grpc", to)
		err := os.Rename(filepath.Join(site, from), to)
		if err == nil {
			err = rewrite(to, regexp.MustCompile(`(?m)^import (?:grpc_)?(\w+_pb2) as`), "from tritonclient.grpc import $1 as")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return site
}

// rewrite replaces what an expression finds in a file.
func rewrite(path string, what *regexp.Regexp, by string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, what.ReplaceAll(text, []byte(by)), 0o644)
}

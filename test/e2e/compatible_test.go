package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestClientsOfOtherServersNeedOnlyAnotherAddress sends what the documents of TensorFlow Serving, KServe v1 and TorchServe
// send with Python's requests, and what those clients do with the answers, to the demo's models and to MobileNetV2.
func TestClientsOfOtherServersNeedOnlyAnotherAddress(t *testing.T) {
	t.Parallel()
	repository := t.TempDir()
	folder := filepath.Join(repository, "mobilenet")
	var labels strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&labels, "class %d\n", i)
	}
	if err := onnxgen.MobileNetV2(1).Save(filepath.Join(folder, "1")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"labels.txt": labels.String(),
		"config.pbtxt": `platform: "onnxruntime_onnx" max_batch_size: 4
			output { name: "output" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: "labels.txt" }`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := serveReady(t, t.TempDir(), "--import", repository, "--import", real.Models(t), "--import", real.Pipelines(t))
	out := tool(t, `run "make rest-client", which installs what this needs`, "/usr/bin/python3",
		filepath.Join("testdata", "rest_clients.py"), b.url, real.Samples(t))
	contains(t, "the clients' output", out, "all is well")
	b.stop()
}

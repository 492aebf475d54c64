package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestGRPCWithAnotherLanguagesToolchain makes a client out of the .proto files with the tools of Debian's packages and
// lets it infer, stream, share memory and ask what there is to ask, against the real program.
func TestGRPCWithAnotherLanguagesToolchain(t *testing.T) {
	t.Parallel()
	sums := sequenceRepository(t, map[string]string{"sums": sequenceConfig(4, "")})
	b := serveReady(t, t.TempDir(), "--set", "shared_memory.enabled=true", "--import", sums)
	b.upload("echo", "", onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Name: "batch"}, onnxgen.Dim{Name: "n"}))
	generated, protos := t.TempDir(), filepath.Join(real.Root(t), "api", "inference")
	const missing = "run \"make grpc-client\", which installs what this needs"
	tool(t, missing, "protoc", "-I", protos, "--python_out="+generated, "--grpc_python_out="+generated,
		"--plugin=protoc-gen-grpc_python="+find(t, missing, "grpc_python_plugin"), "grpc_service.proto", "model_config.proto")
	region := fmt.Sprintf("edgewise-e2e-%d", os.Getpid())
	out := tool(t, missing, "/usr/bin/python3", filepath.Join("testdata", "grpc_client.py"), generated, b.grpc, region)
	contains(t, "the client's output", out, "all is well")
	page, _, code := run(t, nil, "--server", b.url, "model", "list")
	if code != 0 || !strings.Contains(page, "echo") {
		t.Errorf("the REST server after it: exit code %d, %s", code, page)
	}
	b.stop()
}

func find(t *testing.T, missing, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: %s", err, missing)
	}
	return path
}

// tool runs a program that has to succeed and returns what it printed.
func tool(t *testing.T, missing, name string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, find(t, missing, name), arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v (%s)\n%s", name, err, missing, out)
	}
	return string(out)
}

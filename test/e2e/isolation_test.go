package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/processes"
)

// maxOverhead bounds the private memory of an idle child with a small model, ONNX Runtime's own file left out.
const maxOverhead = 30 << 20

func TestAnIdleChildIsSmallAndEndsWithItsModel(t *testing.T) {
	b := serveReady(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, onnxgen.AddSub().Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b.must("model", "push", "small", path)
	children := childrenOf(t, b.cmd.Process.Pid)
	if len(children) != 1 {
		t.Fatalf("children %v", children)
	}
	if n, _, err := processes.PrivateBytes(children[0]); err != nil || n < 1<<20 || n > maxOverhead {
		t.Errorf("%d KiB are private to an idle child, %v", n>>10, err)
	}
	b.must("model", "rm", "small")
	await(t, "the end of the child", func() bool { return len(childrenOf(t, b.cmd.Process.Pid)) == 0 })
	b.stop()
}

func TestAModelMayNotLeaveItsProcessUnlessTheBoxLetsIt(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"model.onnx":   string(onnxgen.AddSub().Bytes()),
		"config.pbtxt": `parameters { key: "isolation" value { string_value: "none" } }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := serveReady(t, t.TempDir())
	b.refuses(4, []string{"this box runs every model in a process of its own"}, "model", "push", "inside", dir)
	b.stop()
	b = serveReady(t, t.TempDir(), "--set", "engine.isolation=model")
	b.must("model", "push", "inside", dir)
	if children := childrenOf(t, b.cmd.Process.Pid); len(children) != 0 {
		t.Errorf("children %v of a box whose only model runs inside", children)
	}
	b.stop()
}

func TestModelsOfAGroupShareAProcessAndComeBackTogether(t *testing.T) {
	b := serveReady(t, t.TempDir(), "--set", "engine.isolation=model")
	for name, bias := range map[string]float32{"one": 1, "two": 2, "three": 3} {
		dir := save(t, biased(bias))
		if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"),
			[]byte(`parameters { key: "isolation" value { string_value: "group:sums" } }`), 0o600); err != nil {
			t.Fatal(err)
		}
		b.must("model", "push", name, dir)
	}
	await(t, "one process for all", func() bool { return len(childrenOf(t, b.cmd.Process.Pid)) == 1 })
	before := childrenOf(t, b.cmd.Process.Pid)[0]
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "three"} {
		await(t, "the return of "+name, func() bool {
			status, text := b.send(http.MethodPost, "/v2/models/"+name+"/infer", []byte(zeros))
			if status != http.StatusOK && !strings.Contains(text, `the process of its group \"sums\"`) {
				t.Errorf("%s: %d %s", name, status, text)
			}
			return status == http.StatusOK
		})
	}
	b.wantBias("one", "1", 1)
	b.wantBias("two", "1", 2)
	b.wantBias("three", "1", 3)
	b.must("model", "rm", "two")
	b.wantBias("one", "1", 1)
	if after := childrenOf(t, b.cmd.Process.Pid); len(after) != 1 || after[0] == before {
		t.Errorf("children %v, before: %d", after, before)
	}
	b.must("model", "rm", "one")
	b.must("model", "rm", "three")
	await(t, "the end of the process", func() bool { return len(childrenOf(t, b.cmd.Process.Pid)) == 0 })
	b.stop()
}

// childrenOf returns the process ids of a process's children.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	pids, err := processes.Children(pid)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

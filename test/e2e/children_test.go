package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise/test/real"
)

// oomScore returns by how much the kernel prefers to end a process when memory runs out.
func oomScore(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheKernelEndsAModelBeforeTheBox(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.upload("sum", "", biased(1))
	children := childrenOf(t, b.cmd.Process.Pid)
	if len(children) != 1 {
		t.Fatalf("children %v", children)
	}
	if child, own := oomScore(t, children[0]), oomScore(t, b.cmd.Process.Pid); child < 800 || child <= own {
		t.Errorf("the process of a model has the score %d, the box %d", child, own)
	}
	if title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", children[0])); err != nil ||
		!strings.HasPrefix(string(title), "edgewise [sum:1]\x00") {
		t.Errorf("the process of a model is called %q, %v", title, err)
	}
	b.stop()
}

// TestABoxIsNotReadyWhileTheProcessOfAModelStarts kills the process of a model and gives the one that follows a pipe in
// place of the runtime library, which it waits to open: until a process has loaded neither the box nor the model is
// ready.
func TestABoxIsNotReadyWhileTheProcessOfAModelStarts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	library, other := filepath.Join(folder, "libonnxruntime.so.1"), filepath.Join(folder, "other")
	put := func(err error) { // what was made at other, in place of the library
		t.Helper()
		if err := errors.Join(err, os.Rename(other, library)); err != nil {
			t.Fatal(err)
		}
	}
	put(os.Symlink(real.Library(t), other))
	b := serveReady(t, t.TempDir(), "--set", "onnx.library="+library)
	b.upload("sum", "", biased(1))
	put(syscall.Mkfifo(other, 0o600))
	first := childrenOf(t, b.cmd.Process.Pid)[0]
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := 0
	await(t, "the next process", func() bool {
		for _, next = range childrenOf(t, b.cmd.Process.Pid) {
			if next != first {
				return true
			}
		}
		return false
	})
	ready := func(path string) bool {
		status, _ := b.send(http.MethodGet, path, nil)
		return status == http.StatusOK
	}
	if ready("/v2/health/ready") || ready("/v2/models/sum/ready") || ready("/v2/models/sum/versions/1/ready") {
		t.Error("it is ready while the process of its model has not loaded")
	}
	put(os.Symlink(real.Library(t), other))
	if err := syscall.Kill(next, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the return of the model", func() bool { return ready("/v2/health/ready") && ready("/v2/models/sum/ready") })
	if status, text := b.send(http.MethodPost, "/v2/models/sum/infer", []byte(zeros)); status != http.StatusOK {
		t.Error(status, text)
	}
	b.stop()
}

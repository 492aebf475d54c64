package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
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

// stopTheNextChild kills the only process of a model and stops its successor as soon as it is seen.
func stopTheNextChild(t *testing.T, b *box) (next int) {
	t.Helper()
	first := childrenOf(t, b.cmd.Process.Pid)[0]
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the next process", func() bool {
		for _, pid := range childrenOf(t, b.cmd.Process.Pid) {
			if pid != first {
				next = pid
				return syscall.Kill(pid, syscall.SIGSTOP) == nil
			}
		}
		return false
	})
	return next
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

// TestABoxIsNotReadyWhileTheProcessOfAModelStarts kills the process of a model and stops the one that follows before it
// has loaded: until it goes on neither the box nor the model is ready. A process that has loaded before it could be
// stopped proves nothing, so there are several attempts, one fewer than the crashes that take a model out of service.
func TestABoxIsNotReadyWhileTheProcessOfAModelStarts(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir(), "--set", "engine.load_timeout=10m")
	b.upload("sum", "", biased(1))
	ready := func(path string) bool {
		status, _ := b.send(http.MethodGet, path, nil)
		return status == http.StatusOK
	}
	stopped := false
	for attempt := 0; attempt < 4 && !stopped; attempt++ {
		next := stopTheNextChild(t, b)
		stopped = !ready("/v2/health/ready") && !ready("/v2/models/sum/ready") &&
			!ready("/v2/models/sum/versions/1/ready")
		if err := syscall.Kill(next, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if !stopped {
		t.Error("it is ready while the process of its model has not loaded")
	}
	await(t, "the return of the model", func() bool { return ready("/v2/health/ready") && ready("/v2/models/sum/ready") })
	if status, text := b.send(http.MethodPost, "/v2/models/sum/infer", []byte(zeros)); status != http.StatusOK {
		t.Error(status, text)
	}
	b.stop()
}

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/processes"
)

// zeroRow is a request to a model of onnxgen.Weights.
var zeroRow = `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1024],"data":[` +
	strings.TrimSuffix(strings.Repeat("0,", 1024), ",") + `]}]}`

// TestModelsThatDoNotFitTogetherAreServedInTurns gives eight models the memory of three: each of them stays ready and
// answers, the pinned one keeps its process, and together they take little more.
func TestModelsThatDoNotFitTogetherAreServedInTurns(t *testing.T) {
	t.Parallel()
	const bound, weights = 320 << 20, 32 << 20
	repository, names := t.TempDir(), []string{"pinned"}
	for n := range 7 {
		names = append(names, fmt.Sprint("m", n))
	}
	for n, name := range names {
		dir := filepath.Join(repository, name, "1")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := onnxgen.Weights(weights, uint64(n)).Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	config := "parameters { key: \"residency\" value { string_value: \"always\" } }\n"
	if err := os.WriteFile(filepath.Join(repository, "pinned", "config.pbtxt"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	b := serveReady(t, t.TempDir(), "--set", fmt.Sprint("engine.max_memory_bytes=", bound), "--model-repository="+repository)
	pinned := processOf(t, b, "pinned")
	var clients sync.WaitGroup
	for client := range 3 {
		clients.Go(func() {
			for n := range 20 {
				name := names[(client*3+n*(client+2))%len(names)]
				code, text, err := b.ask("/v2/models/"+name+"/infer", zeroRow)
				if err != nil || code != http.StatusOK {
					t.Errorf("%s: %d %.200s, %v", name, code, text, err)
				}
				if taken := privateOf(t, b); taken > bound*3/2 { // what a start and a run add is noticed within a second
					t.Errorf("the models take %d MiB", taken>>20)
				}
			}
		})
	}
	clients.Wait()
	for _, name := range names {
		if code, _, err := b.ask("/v2/models/"+name+"/ready", ""); err != nil || code != http.StatusOK {
			t.Errorf("%s is not ready: %d, %v", name, code, err)
		}
	}
	if now := processOf(t, b, "pinned"); now != pinned {
		t.Errorf("the process of the pinned model was %d and is %d", pinned, now)
	}
	if n := len(childrenOf(t, b.cmd.Process.Pid)); n < 2 || n >= len(names) {
		t.Errorf("%d of %d models have a process", n, len(names))
	}
	b.stop()
}

// ask sends a body, or a GET where there is none.
func (b *box) ask(path, body string) (code int, text string, err error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, string(answer), err
}

// privateOf is what the processes of the box's models have for themselves, in bytes.
func privateOf(t *testing.T, b *box) (sum int64) {
	t.Helper()
	for _, pid := range childrenOf(t, b.cmd.Process.Pid) {
		title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		n, _, err := processes.PrivateBytes(pid)
		if err == nil && strings.HasPrefix(string(title), "edgewise [") { // otherwise it has ended, or still has the box's memory
			sum += n
		}
	}
	return sum
}

// processOf is the process of a model.
func processOf(t *testing.T, b *box, model string) int {
	t.Helper()
	for _, pid := range childrenOf(t, b.cmd.Process.Pid) {
		if title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(title), "["+model+":") {
			return pid
		}
	}
	t.Fatalf("model %s has no process", model)
	return 0
}

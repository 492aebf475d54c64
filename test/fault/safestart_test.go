package fault

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// warmed makes a model warm up with one request when it is loaded, which takes Slow a while: long enough to be killed
// in.
const warmed = `model_warmup [{ name: "once" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 ` +
	`dims: [ 16 ] zero_data: true } } }]`

// TestAPoisonModelIsLeftOut kills the program again and again while a model is being loaded, as that model may do
// itself: the third start answers without it and says so, also after a restart; the model is unloaded and the other
// one is loaded.
func TestAPoisonModelIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	b := startBox(t, dir)
	b.push(t, "good", "model.onnx", onnxgen.AddSub().Bytes())
	b.pushFiles(t, "poison", map[string][]byte{"config.pbtxt": []byte(warmed), "model.onnx": onnxgen.Slow(4).Bytes()})
	b.kill() // not in order, and it was ready for less than it takes to be forgotten: this is the first
	if n := killWhileLoading(t, dir, "poison:1"); n != 1 {
		t.Fatalf("%d starts more have loaded models: want 1", n)
	}
	for _, what := range []string{"the third start", "the start after it"} {
		b, ready := launchBox(t, dir)
		b.awaitReady(t, ready)
		s, err := b.client.System(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.SafeStart == nil || s.Ready || len(s.SafeStart.Models) != 1 || s.SafeStart.Models[0] != "poison:1" ||
			!strings.Contains(s.SafeStart.Text, "poison:1") || s.Warnings[0].Code != "safe_start" {
			t.Fatalf("%s: %+v, ready %v, warnings %+v", what, s.SafeStart, s.Ready, s.Warnings)
		}
		if states := b.states(t); states["good"] != "UNAVAILABLE" || states["poison"] != "UNAVAILABLE" {
			t.Errorf("%s loads models: %v", what, states)
		}
		if !strings.Contains(b.output.String(), "safe start") {
			t.Errorf("%s says nothing in the log:\n%s", what, &b.output)
		}
		b.kill()
	}
	b = startBox(t, dir)
	if err := b.client.Unload(t.Context(), "poison"); err != nil {
		t.Fatal(err)
	}
	if err := b.client.LeaveSafeStart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.awaitState(t, "good", "READY")
	s, err := b.client.System(t.Context())
	if err != nil || s.SafeStart != nil || !s.Ready {
		t.Errorf("after it: %+v, ready %v, %v", s.SafeStart, s.Ready, err)
	}
	if state := b.states(t)["poison"]; state == "READY" || state == "LOADING" {
		t.Errorf("the poison is %s", state)
	}
}

// TestTryingAgainLoadsThePoisonOnce leaves a safe start without switching the model off: one crash later it is back.
func TestTryingAgainLoadsThePoisonOnce(t *testing.T) {
	dir := t.TempDir()
	b := startBox(t, dir)
	b.pushFiles(t, "poison", map[string][]byte{"config.pbtxt": []byte(warmed), "model.onnx": onnxgen.Slow(4).Bytes()})
	b.kill()
	killWhileLoading(t, dir, "poison:1")
	b = startBox(t, dir)
	before := counted(t, dir)
	if err := b.client.LeaveSafeStart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !waitForLoading(t, dir, "poison:1", before, nil) {
		t.Fatalf("it does not load the model again:\n%s", &b.output)
	}
	b.kill()
	b = startBox(t, dir)
	if s, err := b.client.System(t.Context()); err != nil || s.SafeStart == nil {
		t.Errorf("the safe start is not back: %+v, %v", s, err)
	}
}

// killWhileLoading starts the program and kills it while it loads a version, until a start no longer does; it returns
// how many did.
func killWhileLoading(t *testing.T, dir, version string) (starts int) {
	t.Helper()
	for ; starts < 10; starts++ {
		before := counted(t, dir)
		b, ready := launchBox(t, dir)
		loads := waitForLoading(t, dir, version, before, ready)
		b.kill()
		if !loads {
			return starts
		}
	}
	t.Fatal("the program loads the version for ever")
	return starts
}

// starts is what the data folder says of starts that have not ended well.
type starts struct {
	Total   int      `json:"total"`
	Loading []string `json:"loading"`
}

func readStarts(dir string) (s starts) {
	text, err := os.ReadFile(filepath.Join(dir, "starts.json"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil { // not there, or being written
		return starts{}
	}
	return s
}

// counted is how many starts have been counted.
func counted(t *testing.T, dir string) int {
	t.Helper()
	n := readStarts(dir).Total
	t.Logf("%d starts counted, loading %v", n, readStarts(dir).Loading)
	return n
}

// waitForLoading waits until more than before starts are counted and the last one loads a version; false: the box is
// ready without that.
func waitForLoading(t *testing.T, dir, version string, before int, ready <-chan string) bool {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if now := readStarts(dir); now.Total > before && slices.Contains(now.Loading, version) {
			return true
		}
		select {
		case <-ready:
			return false
		default:
		}
	}
	t.Fatal("the box neither loads it nor gets ready")
	return false
}

// states returns the state of the live version of each model.
func (b *box) states(t *testing.T) map[string]string {
	t.Helper()
	models, err := b.client.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, m := range models {
		states[m.Name] = liveState(m)
	}
	return states
}

func liveState(m admin.Model) string {
	for _, v := range m.Versions {
		if v.State != "" {
			return string(v.State)
		}
	}
	return ""
}

func (b *box) awaitState(t *testing.T, model, state string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); b.states(t)[model] != state; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is %q, not %s:\n%s", model, b.states(t)[model], state, &b.output)
		}
	}
}

// pushFiles stores a version of several files and makes it live.
func (b *box) pushFiles(t *testing.T, name string, files map[string][]byte) {
	t.Helper()
	var paths []string
	for path := range files {
		paths = append(paths, path)
	}
	up := edgewise.Upload{Model: name, Size: -1, Next: func() (string, int64, io.Reader, error) {
		if len(paths) == 0 {
			return "", 0, nil, io.EOF
		}
		path := paths[0]
		paths = paths[1:]
		return path, int64(len(files[path])), strings.NewReader(string(files[path])), nil
	}}
	if _, err := b.client.Push(t.Context(), up, true, nil); err != nil {
		t.Fatalf("pushing %s: %v\n%s", name, err, &b.output)
	}
}

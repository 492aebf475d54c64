package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// TestVersionsAndLabels follows one model through its life, on one box and over a restart.
func TestVersionsAndLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	for v := range 2 {
		contains(t, "push", b.must("model", "push", "cat", save(t, biased(float32(v+1)))), fmt.Sprintf(`model "cat" version %d is live`, v+1))
	}
	b.wantBias("cat", "2", 2)
	contains(t, "rollback", b.must("model", "rollback", "cat"), `label "live" points to version 1`)
	b.wantBias("cat", "1", 1)
	contains(t, "promote", b.must("model", "promote", "cat:2"), `label "live" points to version 2`)
	b.wantBias("cat", "2", 2)
	b.must("model", "push", "cat", save(t, biased(3)), "--stage")
	b.wantBias("cat", "2", 2)
	b.must("model", "promote", "cat:3", "--label", "beta")
	b.wantBias("cat", "2", 2)
	b.wantBias("cat/versions/3", "3", 3)

	t.Run("what differs between two versions", func(t *testing.T) {
		diff := b.must("model", "diff", "cat", "1", "2")
		contains(t, "diff", diff, `model "cat": from version 1 to version 2`, "file model.onnx was changed from ")
		if strings.Contains(diff, "input ") || strings.Contains(diff, "config.") {
			t.Errorf("only the file differs:\n%s", diff)
		}
		contains(t, "diff", b.must("model", "diff", "cat", "2", "2"), "signature, configuration and files are the same")
		b.refuses(3, []string{"cat", "9"}, "model", "diff", "cat", "1", "9")
		b.refuses(2, []string{`version "live"`}, "model", "diff", "cat", "1", "live")
	})
	t.Run("a version that does not load stays stored and does not become live", func(t *testing.T) {
		b.refuses(4, []string{`model "cat" version 4 is stored but was not made live`, "MatMul"}, "model", "push", "cat", save(t, unloadable()))
		b.wantBias("cat", "2", 2)
		b.refuses(4, []string{"MatMul"}, "model", "promote", "cat:4")
		b.wantBias("cat", "2", 2)
	})
	t.Run("deleting", func(t *testing.T) {
		b.refuses(4, []string{"cat", "2", "live"}, "model", "rm", "cat:2")
		b.refuses(4, []string{"cat", "3", "beta"}, "model", "rm", "cat:3")
		contains(t, "rm", b.must("model", "rm", "cat:4"), `model "cat" version 4 is deleted`)
		b.refuses(3, []string{"cat", "4"}, "model", "rm", "cat:4")
		b.refuses(3, []string{"cat", "9"}, "model", "promote", "cat:9")
		b.refuses(3, []string{"dog"}, "model", "rm", "dog")
	})
	t.Run("a deleted number is not given again", func(t *testing.T) {
		contains(t, "push", b.must("model", "push", "cat", save(t, biased(5)), "--stage"), `version 5 is stored`)
	})
	t.Run("lists", func(t *testing.T) { wantCat(t, b) })
	b.stop()
	b = serveReady(t, dir)
	b.wantBias("cat", "2", 2)
	b.wantBias("cat/versions/3", "3", 3)
	b.must("model", "rm", "cat")
	b.refuses(3, []string{"cat"}, "model", "show", "cat")
	b.stop()
	wantHealthy(t, dir)
}

// wantCat checks what list and show say of the model: versions 1, 2, 3 and 5, live at 2, beta at 3.
func wantCat(t *testing.T, b *box) {
	list := strings.Split(b.must("model", "list"), "\n")
	if fields := strings.Fields(list[1]); len(fields) < 4 || strings.Join(fields[:4], " ") != "cat 2 READY 4" {
		t.Errorf("model list: %q", list)
	}
	contains(t, "model show", b.must("model", "show", "cat"), "model cat, served", "live", "beta", "[batch,4]", "1 operators, 4 parameters")
	var m admin.Model
	if err := json.Unmarshal([]byte(b.must("--output", "json", "model", "show", "cat")), &m); err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for _, v := range m.Versions {
		numbers = append(numbers, v.Version)
	}
	if fmt.Sprint(numbers) != "[1 2 3 5]" || m.Label("live") != 2 || m.Label("beta") != 3 || !m.Wanted {
		t.Errorf("versions %v, labels %v", numbers, m.Labels)
	}
}

func TestUnloadIsRememberedOverARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.upload("on", "", biased(1))
	b.upload("off", "", biased(2))
	ok := func(path string) {
		t.Helper()
		if status, text := b.send(http.MethodPost, path, nil); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	gone := func() {
		t.Helper()
		status, text := b.send(http.MethodPost, "/v2/models/off/infer", []byte(zeros))
		if status < 400 || status >= 500 && status != http.StatusServiceUnavailable {
			t.Errorf("an unloaded model answers %d %s", status, text)
		}
		if status, _ := b.send(http.MethodGet, "/v2/health/ready", nil); status != http.StatusOK {
			t.Errorf("a box with an unloaded model is not ready: %d", status)
		}
		b.wantBias("on", "1", 1)
	}
	ok("/v2/repository/models/off/unload")
	gone()
	b.stop()
	b = serveReady(t, dir)
	gone()
	contains(t, "list", b.must("model", "list"), "off     1      UNAVAILABLE", "unloaded")
	ok("/v2/repository/models/off/load")
	b.wantBias("off", "1", 2)
	b.stop()
	b = serveReady(t, dir)
	b.wantBias("off", "1", 2)
}

func TestARenamedModelAnswersAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.upload("cat", "", biased(1))
	b.upload("cat", "", biased(2))
	contains(t, "rename", b.must("model", "rename", "cat", "dog"), `model "cat" is "dog" now`)
	b.wantBias("dog", "2", 2)
	b.kill()
	b = serveReady(t, dir)
	b.wantBias("dog", "2", 2)
	if _, text := b.send(http.MethodPost, "/v2/repository/index", nil); strings.Contains(text, `"cat"`) {
		t.Errorf("the index has the old name: %s", text)
	}
	b.refuses(4, []string{`"dog" has that name already`}, "model", "rename", "dog", "dog")
}

func TestImport(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	folder := t.TempDir()
	put := func(model string, version int, bias float32) {
		t.Helper()
		if err := biased(bias).Save(filepath.Join(folder, model, fmt.Sprint(version))); err != nil {
			t.Fatal(err)
		}
	}
	put("cat", 1, 1)
	put("cat", 3, 3)
	put("dog", 7, 7)
	config := "name: \"cat\"\nplatform: \"onnxruntime_onnx\"\nmax_batch_size: 2\n"
	if err := os.WriteFile(filepath.Join(folder, "cat", "config.pbtxt"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	contains(t, "first import", b.must("model", "import", folder), `"cat" version 1: stored`, `"cat" version 3: live`, `"dog" version 7: live`)
	b.wantBias("cat", "3", 3)
	b.wantBias("dog", "7", 7)
	if _, text := b.send(http.MethodGet, "/v2/models/cat/config", nil); !strings.Contains(text, `"max_batch_size":2`) {
		t.Errorf("the configuration of the repository is not in force: %s", text)
	}
	contains(t, "second import", b.must("model", "import", folder),
		`"cat" version 1: there already`, `"cat" version 3: there already`, `"dog" version 7: there already`)
	put("cat", 3, 33)
	put("dog", 8, 8)
	out, stderr, code := b.run("model", "import", folder)
	if code != 4 {
		t.Errorf("importing changed files: exit code %d", code)
	}
	contains(t, "import of changed files", stderr, `"cat" version 3`, "versions never change")
	contains(t, "import of changed files", out, `"cat" version 1: there already`, `"dog" version 8: live`)
	b.wantBias("cat", "3", 3)
	b.wantBias("dog", "8", 8)
	b.refuses(4, []string{"no model in it"}, "model", "import", t.TempDir())
	b.refuses(3, []string{"nowhere"}, "model", "import", filepath.Join(folder, "nowhere"))
}

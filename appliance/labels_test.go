package appliance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// pushLabelled uploads a version whose output has the labels of a file.
func (h *house) pushLabelled(labels string) edgewise.ModelID {
	h.t.Helper()
	files := []struct{ path, content string }{
		{"model.onnx", "one"},
		{"labels.txt", labels},
		{"config.pbtxt", `output { name: "out" data_type: TYPE_STRING dims: 1 label_filename: "labels.txt" }`},
	}
	v, err := h.Push(h.t.Context(), uploadOf("m", files...), true)
	h.must(err)
	return v.ID
}

// keptLabels is how many versions have their labels in memory.
func (h *house) keptLabels() int {
	n := 0
	h.labelCache.versions.Range(func(any, any) bool { n++; return true })
	return n
}

func TestLabelsComeFromTheVersionsOwnFile(t *testing.T) {
	h := newHouse(t)
	id := h.pushLabelled("cat\r\ndog\n\nbird")
	if got := strings.Join(h.labels(id, "out"), "|"); got != "cat|dog||bird" {
		t.Errorf("labels %q", got)
	}
	for _, id := range []edgewise.ModelID{{Name: "m", Version: 9}, {Name: "nobody", Version: 1}} {
		if got := h.labels(id, "out"); got != nil {
			t.Errorf("labels of %v: %v", id, got)
		}
	}
	if got := h.labels(id, "other"); got != nil {
		t.Errorf("labels of an output without any: %v", got)
	}
}

func TestLabelsAreReadOnceAndDroppedWithTheirVersion(t *testing.T) {
	h := newHouse(t)
	id := h.pushLabelled("cat\ndog\n")
	first, second := h.labels(id, "out"), h.labels(id, "out")
	if !slices.Equal(first, []string{"cat", "dog"}) || &first[0] != &second[0] {
		t.Errorf("labels %q, then %q: want the same memory", first, second)
	}
	if n := h.keptLabels(); n != 1 {
		t.Errorf("labels of %d versions are kept, want 1", n)
	}
	h.must(h.Unload(t.Context(), "m"))
	h.must(h.manager.Settle(t.Context(), "m"))
	if n := h.keptLabels(); n != 0 {
		t.Errorf("labels of %d versions are kept after they were unloaded", n)
	}
	if got := h.labels(id, "out"); !slices.Equal(got, first) || h.keptLabels() != 0 {
		t.Errorf("labels of an unloaded version: %q, kept: %d", got, h.keptLabels())
	}
	h.must(h.DeleteModel(t.Context(), "m"))
	if got := h.labels(id, "out"); got != nil {
		t.Errorf("labels of a deleted version: %q", got)
	}
}

func TestReadLabels(t *testing.T) {
	tests := []struct {
		name  string
		text  string
		lines int
		err   string
	}{
		{"empty file", "", 0, ""},
		{"empty first label", "\ncat", 2, ""},
		{"without an end of line", "cat\ndog", 2, ""},
		{"one long label", strings.Repeat("x", maxLabelBytes), 1, ""},
		{"too many bytes", strings.Repeat("x", maxLabelBytes+1), 0, "more than 1048576 bytes"},
		{"as many lines as are allowed", strings.Repeat("x\n", maxLabelLines), maxLabelLines, ""},
		{"too many lines", strings.Repeat("x\n", maxLabelLines+1), 0, "more than 100000 lines"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "labels.txt")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			lines, err := readLabels(path)
			if len(lines) != test.lines {
				t.Errorf("%d lines, want %d", len(lines), test.lines)
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

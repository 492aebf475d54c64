package registry_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/test/models"
)

// pushLabelled uploads a version whose output has the labels of a file.
func (h *fixture) pushLabelled(labels string) edgewise.ModelID {
	h.T.Helper()
	files := []models.File{
		{"model.onnx", "one"},
		{"labels.txt", labels},
		{"config.pbtxt", `output { name: "out" data_type: TYPE_STRING dims: 1 label_filename: "labels.txt" }`},
	}
	v, err := h.Push(h.T.Context(), models.Upload("m", files...), true)
	h.Must(err)
	return v.ID
}

func TestLabelsComeFromTheVersionsOwnFile(t *testing.T) {
	h := newFixture(t)
	id := h.pushLabelled("cat\r\ndog\n\nbird")
	if got := strings.Join(h.Classes(id, "out"), "|"); got != "cat|dog||bird" {
		t.Errorf("labels %q", got)
	}
	for _, id := range []edgewise.ModelID{{Name: "m", Version: 9}, {Name: "nobody", Version: 1}} {
		if got := h.Classes(id, "out"); got != nil {
			t.Errorf("labels of %v: %v", id, got)
		}
	}
	if got := h.Classes(id, "other"); got != nil {
		t.Errorf("labels of an output without any: %v", got)
	}
}

func TestLabelsAreReadOnceAndDroppedWithTheirVersion(t *testing.T) {
	h := newFixture(t)
	id := h.pushLabelled("cat\ndog\n")
	first, second := h.Classes(id, "out"), h.Classes(id, "out")
	if !slices.Equal(first, []string{"cat", "dog"}) || &first[0] != &second[0] {
		t.Errorf("labels %q, then %q: want the same memory", first, second)
	}
	if n := h.CachedClasses(); n != 1 {
		t.Errorf("labels of %d versions are kept, want 1", n)
	}
	h.Must(h.Unload(t.Context(), "m"))
	h.Must(h.Manager.Settle(t.Context(), "m"))
	if n := h.CachedClasses(); n != 0 {
		t.Errorf("labels of %d versions are kept after they were unloaded", n)
	}
	if got := h.Classes(id, "out"); !slices.Equal(got, first) || h.CachedClasses() != 0 {
		t.Errorf("labels of an unloaded version: %q, kept: %d", got, h.CachedClasses())
	}
	h.Must(h.DeleteModel(t.Context(), "m"))
	if got := h.Classes(id, "out"); got != nil {
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
		{"one long label", strings.Repeat("x", registry.MaxLabelBytes), 1, ""},
		{"too many bytes", strings.Repeat("x", registry.MaxLabelBytes+1), 0, "more than 1048576 bytes"},
		{"as many lines as are allowed", strings.Repeat("x\n", registry.MaxLabelLines), registry.MaxLabelLines, ""},
		{"too many lines", strings.Repeat("x\n", registry.MaxLabelLines+1), 0, "more than 100000 lines"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "labels.txt")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			lines, err := registry.ReadLabels(path)
			if len(lines) != test.lines {
				t.Errorf("%d lines, want %d", len(lines), test.lines)
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

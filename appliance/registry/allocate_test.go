package registry_test

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

// allocatingEcho is an echo whose instances allocate the memory of inputs.
type allocatingEcho struct{ *models.EchoInstance }

func (allocatingEcho) Alloc(n int) ([]byte, func(), error) { return make([]byte, n), func() {}, nil }

func (allocatingEcho) AllocBody(n int) ([]byte, func()) { return make([]byte, n), func() {} }

func (allocatingEcho) OwnsBody([]byte) bool { return false }

func (allocatingEcho) KeptBytes() int { return 0 }

func TestAModelLendsMemoryUnlessItsRequestsAreLookedAtBeforeTheyRun(t *testing.T) {
	h := newFixture(t)
	h.Backend.Wrap = func(i *models.EchoInstance) edgewise.Instance { return allocatingEcho{i} }
	for _, test := range []struct {
		name, config string
		allocates    bool
	}{
		{"plain", "", true},
		{"cached", "response_cache { enable: true }", false},
		{"sequences", "sequence_batching {}", false},
	} {
		files := []models.File{{"model.onnx", test.name}}
		if test.config != "" {
			files = append(files, models.File{"config.pbtxt", test.config})
		}
		v, err := h.Push(t.Context(), models.Upload(test.name, files...), true)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if err := h.Manager.Await(t.Context(), v.ID); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		data, free := h.Manager.AllocBody(v.ID, 100)
		if (data != nil) != test.allocates {
			t.Errorf("%s: allocates %v, want %v", test.name, data != nil, test.allocates)
		}
		if data != nil {
			free()
		}
	}
	if data, _ := h.Manager.AllocBody(edgewise.ModelID{Name: "nobody"}, 100); data != nil {
		t.Error("a model that does not exist allocates")
	}
}

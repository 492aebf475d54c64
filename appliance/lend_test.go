package appliance

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// lendingEcho is an echo whose instances lend memory.
type lendingEcho struct{ *echoInstance }

func (lendingEcho) Alloc(n int) ([]byte, func(), error) { return make([]byte, n), func() {}, nil }

func (lendingEcho) AllocBody(n int) ([]byte, func()) { return make([]byte, n), func() {} }

func (lendingEcho) OwnsBody([]byte) bool { return false }

var _ edgewise.BodyAllocator = lendingEcho{}

func TestAModelLendsMemoryUnlessItsRequestsAreLookedAtBeforeTheyRun(t *testing.T) {
	h := newHouse(t)
	h.backend.wrap = func(i *echoInstance) edgewise.Instance { return lendingEcho{i} }
	for _, test := range []struct {
		name, config string
		lends        bool
	}{
		{"plain", "", true},
		{"cached", "response_cache { enable: true }", false},
		{"sequences", "sequence_batching {}", false},
	} {
		files := []struct{ path, content string }{{"model.onnx", test.name}}
		if test.config != "" {
			files = append(files, struct{ path, content string }{"config.pbtxt", test.config})
		}
		v, err := h.Push(t.Context(), uploadOf(test.name, files...), true)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if err := h.manager.Await(t.Context(), v.ID); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		data, free := h.manager.AllocBody(v.ID, 100)
		if (data != nil) != test.lends {
			t.Errorf("%s: lends %v, want %v", test.name, data != nil, test.lends)
		}
		if data != nil {
			free()
		}
	}
	if data, _ := h.manager.AllocBody(edgewise.ModelID{Name: "nobody"}, 100); data != nil {
		t.Error("a model that does not exist lends")
	}
}

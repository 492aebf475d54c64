package sdk

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
)

// The demo brings its steps along so that it needs no compiler. They must be what the gallery's sources make.
func TestTheDemosStepsAreThoseOfTheGallery(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Glob("../../configs/demo/steps/*.wasm")
	if err != nil || len(modules) < 7 {
		t.Fatalf("steps %v, error %v", modules, err)
	}
	for _, module := range modules {
		brought, err := os.ReadFile(module)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(module), ".wasm")
		made, err := os.ReadFile(filepath.Join(built(t, filepath.Join("../../sdk/gallery", name)), step.ModuleFile))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(brought, made) {
			t.Errorf("configs/demo/steps/%s.wasm has %d bytes, its source makes other %d: run \"make demo-steps\"", name, len(brought), len(made))
		}
	}
}

package real

import (
	"log/slog"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// instanceOf loads a model as the box does: by its configuration, which is held against the file.
func instanceOf(t *testing.T, name string, m *onnxgen.Model, config string) (*edgewise.Version, edgewise.Instance) {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	backend := onnx.New(onnx.Config{Library: Library(t), Logger: slog.New(slog.DiscardHandler)})
	declared, err := modelconfig.Parse("config.pbtxt", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	files, defaults := []string{"model.onnx"}, modelconfig.Defaults{Formats: backend.Formats()}
	inspection, err := backend.Inspect(t.Context(), dir, declared)
	if err != nil {
		t.Fatal(err)
	}
	complete, err := modelconfig.Complete(declared, name, files, inspection, defaults)
	if err == nil {
		err = modelconfig.Validate(complete, files, inspection, defaults)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := &edgewise.Version{ID: edgewise.ModelID{Name: name, Version: 1}, Model: complete}
	instance, err := backend.Load(t.Context(), v, dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	return v, instance
}

package importer

import (
	"os"
	"path/filepath"
	"testing"
)

func TestASavedModelIsRefusedWhereNoBackendWouldFindIt(t *testing.T) {
	for path, refused := range map[string]bool{
		"saved_model.pb": true, "1/saved_model.pb": true, "net/1/saved_model.pb": true,
		"1/model.savedmodel/saved_model.pb": false, "model.savedmodel/saved_model.pb": false, "1/model.onnx": false,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkSavedModel(dir); (err != nil) != refused {
			t.Errorf("%s: %v", path, err)
		}
	}
}

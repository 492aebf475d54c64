package importer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// TestAnArchiveIsReadWhateverIsBesideIt reads a model's folder under names that are taken in the upload's folder, and
// as often as the box starts.
func TestAnArchiveIsReadWhateverIsBesideIt(t *testing.T) {
	for _, name := range []string{"data", "unpacked", "state.json", "cat"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			folder := filepath.Join(dir, "unpacked")
			if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "state.json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := os.RemoveAll(folder); err != nil {
					t.Fatal(err)
				}
				if err := os.MkdirAll(filepath.Join(folder, "1"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, "1", "model.onnx"), []byte("net"), 0o600); err != nil {
					t.Fatal(err)
				}
				im := &Importer{config: Config{Formats: edgewise.Formats{{File: "model.onnx"}}}}
				versions, named, err := im.readArchive(uploads.File{Filename: "x.zip", Model: name}, folder)
				if err != nil || !named || len(versions) != 1 || versions[0].ID.Name != name || versions[0].ID.Version != 1 {
					t.Fatalf("%+v, %v, %v", versions, named, err)
				}
				if _, err := os.Stat(versions[0].Files[0].Source); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

package registry_test

import (
	"crypto/md5" //nolint:gosec // what is under test
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/registry"
)

// put writes a file below a folder.
func put(t *testing.T, dir, path string, data []byte) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestChecksumAgent(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "model.onnx", []byte("weights"))
	sum := md5.Sum([]byte("weights")) //nolint:gosec // what is under test
	good := hex.EncodeToString(sum[:])
	tests := []struct {
		name, key, value string
		kind             edgewise.Kind
		want             string
	}{
		{"right", "MD5:1/model.onnx", strings.ToUpper(good), 0, ""},
		{
			"wrong", "MD5:model.onnx", strings.Repeat("0", 32), edgewise.Corrupt,
			`file "model.onnx" is not what the checksum agent expects: MD5 ` + good + ", want " + strings.Repeat("0", 32),
		},
		{"no file", "MD5:other", good, edgewise.Internal, `file "other"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &edgewise.Model{Name: "m", ModelRepositoryAgents: &edgewise.ModelRepositoryAgents{Agents: []edgewise.RepositoryAgent{
				{Name: "checksum", Parameters: map[string]string{test.key: test.value}},
			}}}
			err := registry.CheckSums(t.Context(), m, dir)
			if (err == nil) != (test.want == "") || err != nil && (edgewise.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCommittedCodeIsWhatTheGeneratorsMake(t *testing.T) {
	const root = "../../.."
	files, err := generate(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Fatalf("%d files are generated, want 3", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if string(got) != want {
			t.Errorf("%s is not what its .proto file makes: run \"make proto\"", name)
		}
	}
}

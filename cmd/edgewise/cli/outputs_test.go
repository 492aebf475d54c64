package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestOutputsWhoseNamesBecomeTheSameAreAllSaved(t *testing.T) {
	dir := t.TempDir()
	var outputs []edgewise.Tensor
	for i, name := range []string{"a_b", "a/b", "a:b"} {
		outputs = append(outputs, edgewise.Tensor{Name: name, Type: edgewise.Uint8, Shape: edgewise.Shape{1}, Data: []byte{byte('1' + i)}})
	}
	if err := SaveOutputs(dir, outputs); err != nil {
		t.Fatal(err)
	}
	for name, last := range map[string]byte{"a_b.npy": '1', "a_b_.npy": '2', "a_b__.npy": '3'} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || text[len(text)-1] != last {
			t.Errorf("%s: %v", name, err)
		}
	}
}

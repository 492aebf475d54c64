package sdk

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/test/samples"
)

// What a native implementation of the demo's pipelines has sent to the models, and has made of their answers, is in
// testdata/native. The inputs and the models' answers are those of the tests.

// native reads what native code has answered.
func native[T any](t *testing.T, name string) (value T) {
	t.Helper()
	if err := json.Unmarshal(nativeFile(t, name), &value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// nativeValues reads the values of a tensor that native code has sent to a model.
func nativeValues(t *testing.T, name string) []float32 {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(nativeFile(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(compressed)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	in := samples.Floats(name, nil)
	in.Data = data
	return samples.Values(in)
}

func nativeFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "native", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

package onnxfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const modelFile = "model.onnx"

// refusal is a file that must be refused, and what the error must say.
type refusal struct {
	name string
	file []byte
	kind edgewise.Kind
	says string
}

func (r refusal) check(t *testing.T) {
	t.Helper()
	dir := folderWith(t, r.file)
	f, err := onnxfile.Read(dir, modelFile, onnxfile.DefaultLimits())
	checkRefused(t, f, err, r.kind, r.says)
}

func checkRefused(t *testing.T, f *onnxfile.File, err error, kind edgewise.Kind, says string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted: %+v", f)
	}
	if f != nil {
		t.Errorf("a refused file came back as %+v", f)
	}
	if got := edgewise.KindOf(err); got != kind {
		t.Errorf("kind %v, want %v: %v", got, kind, err)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("error %q does not say %q", err, says)
	}
}

func checkAll(t *testing.T, table []refusal) {
	t.Helper()
	for _, r := range table {
		t.Run(r.name, r.check)
	}
}

func folderWith(t *testing.T, model []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, modelFile), model, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readModel(t *testing.T, m *onnxgen.Model) *onnxfile.File {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	f, err := onnxfile.Read(dir, modelFile, onnxfile.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// scalarWith is a small good model, changed.
func scalarWith(change func(m *onnxgen.Model)) []byte {
	m := onnxgen.Scalar()
	change(m)
	return m.Bytes()
}

// withInitializer is a small good model with one more initializer.
func withInitializer(t onnxgen.Tensor) []byte {
	return scalarWith(func(m *onnxgen.Model) { m.Graph.Initializers = append(m.Graph.Initializers, t) })
}

// withNode is a small good model with one more node.
func withNode(n onnxgen.Node) []byte {
	return scalarWith(func(m *onnxgen.Model) { m.Graph.Nodes = append(m.Graph.Nodes, n) })
}

// withAttribute is a small good model with one more node, which has the attribute.
func withAttribute(a onnxgen.Attribute) []byte {
	return withNode(onnxgen.Node{Op: "Constant", Name: "c", Out: []string{"c"}, Attributes: []onnxgen.Attribute{a}})
}

// withInput is a small good model with one more input.
func withInput(v onnxgen.Value) []byte {
	return scalarWith(func(m *onnxgen.Model) { m.Graph.Inputs = append(m.Graph.Inputs, v) })
}

func message() *onnxgen.Message { return new(onnxgen.Message) }

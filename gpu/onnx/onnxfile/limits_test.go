package onnxfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// crowded is a model with some of everything that is limited.
func crowded() *onnxgen.Model {
	m := onnxgen.External()
	inner := onnxgen.Graph{Name: "inner", Nodes: []onnxgen.Node{{Op: "Relu", In: []string{"y"}, Out: []string{"z"}}}}
	m.Graph.Nodes = append(m.Graph.Nodes,
		onnxgen.Node{Op: "F", Domain: "f"}, onnxgen.Node{Op: "F", Domain: "f"},
		onnxgen.Node{Op: "If", Attributes: []onnxgen.Attribute{onnxgen.GraphAttribute("then_branch", inner)}})
	m.Functions = []onnxgen.Function{
		{Domain: "f", Name: "F", Nodes: []onnxgen.Node{{Op: "G", Domain: "f"}}},
		{Domain: "f", Name: "G", Nodes: []onnxgen.Node{{Op: "Relu"}}},
	}
	m.Metadata = []onnxgen.Entry{{Key: "a", Value: strings.Repeat("v", 200)}, {Key: "b", Value: "w"}}
	m.Opsets = []onnxgen.Opset{{Version: 13}, {Domain: "f", Version: 1}}
	m.Graph.Extra = message().Nested(15, onnxgen.Sparse(onnxgen.Floats("s", []int64{1}, 1),
		onnxgen.Ints64("", []int64{1}, 0), 100))
	return m
}

// limit is one field of Limits, how much of it crowded takes, and what the error says.
type limit struct {
	name  string
	takes int64
	set   func(l *onnxfile.Limits, v int64)
	says  string
}

func limits(size, kept, fields int64) []limit {
	return []limit{
		{"File", size, func(l *onnxfile.Limits, v int64) { l.File = v }, "at most %d are allowed"},
		{"Fields", fields, func(l *onnxfile.Limits, v int64) { l.Fields = v }, "more than %d wire fields"},
		{"Depth", 1, func(l *onnxfile.Limits, v int64) { l.Depth = int(v) }, "more than %d graphs inside graphs"},
		{"CallDepth", 2, func(l *onnxfile.Limits, v int64) { l.CallDepth = int(v) }, "more than %d functions calling"},
		{"Nodes", 7, func(l *onnxfile.Limits, v int64) { l.Nodes = int(v) }, "more than %d nodes"},
		{"Expanded", 9, func(l *onnxfile.Limits, v int64) { l.Expanded = v }, "more than %d nodes once the functions"},
		{"Tensors", 4, func(l *onnxfile.Limits, v int64) { l.Tensors = int(v) }, "more than %d tensors"},
		{"Attributes", 1, func(l *onnxfile.Limits, v int64) { l.Attributes = int(v) }, "more than %d attributes"},
		{"ValueInfos", 2, func(l *onnxfile.Limits, v int64) { l.ValueInfos = int(v) }, "more than %d declared values"},
		{"Signature", 1, func(l *onnxfile.Limits, v int64) { l.Signature = int(v) }, "at most %d are allowed"},
		{"Functions", 2, func(l *onnxfile.Limits, v int64) { l.Functions = int(v) }, "more than %d functions"},
		{"Imports", 2, func(l *onnxfile.Limits, v int64) { l.Imports = int(v) }, "more than %d operator sets"},
		{"Metadata", 2, func(l *onnxfile.Limits, v int64) { l.Metadata = int(v) }, "more than %d metadata entries"},
		{"Rank", 2, func(l *onnxfile.Limits, v int64) { l.Rank = int(v) }, "more than %d dimensions"},
		{"Name", int64(len("then_branch")), func(l *onnxfile.Limits, v int64) { l.Name = int(v) }, "at most %d are allowed"},
		{"Text", 200, func(l *onnxfile.Limits, v int64) { l.Text = int(v) }, "at most %d are allowed"},
		{"Kept", kept, func(l *onnxfile.Limits, v int64) { l.Kept = v }, "more than %d bytes of names"},
		{"Weights", 40 + 4 + 8, func(l *onnxfile.Limits, v int64) { l.Weights = v }, "more than %d bytes of tensors"},
		{"Dense", 400, func(l *onnxfile.Limits, v int64) { l.Dense = v }, "more than %d bytes of sparse tensors"},
		{
			"ExternalData", 2, func(l *onnxfile.Limits, v int64) { l.ExternalData = int(v) },
			"more than %d tensors in other files",
		},
	}
}

func TestReadHoldsEachLimitExactly(t *testing.T) {
	dir := t.TempDir()
	m := crowded()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	read := func(change func(l *onnxfile.Limits)) (*onnxfile.File, error) {
		l := onnxfile.DefaultLimits()
		change(&l)
		return onnxfile.Read(dir, modelFile, l)
	}
	least := func(set func(l *onnxfile.Limits, v int64)) int64 {
		for v := int64(1); v < 10_000; v++ {
			if _, err := read(func(l *onnxfile.Limits) { set(l, v) }); err == nil {
				return v
			}
		}
		t.Fatal("no value is enough")
		return 0
	}
	kept := least(func(l *onnxfile.Limits, v int64) { l.Kept = v })
	fields := least(func(l *onnxfile.Limits, v int64) { l.Fields = v })
	for _, c := range limits(int64(len(m.Bytes())), kept, fields) {
		t.Run(c.name, func(t *testing.T) {
			if _, err := read(func(l *onnxfile.Limits) { c.set(l, c.takes) }); err != nil {
				t.Errorf("refused at the limit of %d: %v", c.takes, err)
			}
			f, err := read(func(l *onnxfile.Limits) { c.set(l, c.takes-1) })
			checkRefused(t, f, err, edgewise.TooLarge, fmt.Sprintf(c.says, c.takes-1))
		})
	}
}

func TestReadRefusesDepthByDefault(t *testing.T) {
	nest := func(depth int) []byte {
		g := onnxgen.Graph{}
		for range depth {
			g = onnxgen.Graph{Nodes: []onnxgen.Node{{Op: "If", Attributes: []onnxgen.Attribute{onnxgen.GraphAttribute("g", g)}}}}
		}
		return withAttribute(onnxgen.GraphAttribute("g", g))
	}
	types := func(depth int) []byte {
		inner := message().Nested(1, message().Int(1, 1))
		for range depth {
			inner = message().Nested(4, message().Nested(1, inner))
		}
		return scalarWith(func(m *onnxgen.Model) {
			m.Graph.Values = []onnxgen.Value{{Name: "v", Extra: message().Nested(2, inner)}}
		})
	}
	checkAll(t, []refusal{
		{"17 graphs", nest(16), edgewise.TooLarge, "16 graphs inside graphs"},
		{"200 graphs", nest(199), edgewise.TooLarge, "16 graphs inside graphs"},
		{"17 types", types(17), edgewise.TooLarge, "16 types inside types"},
		{"1,000 types", types(1_000), edgewise.TooLarge, "16 types inside types"},
	})
}

func TestReadRefusesFunctionsThatGrowWithoutBound(t *testing.T) {
	m := onnxgen.Scalar()
	m.Graph.Nodes = append(m.Graph.Nodes, onnxgen.Node{Op: "F0", Domain: "f"})
	for i := range 60 {
		call := onnxgen.Node{Op: fmt.Sprintf("F%d", i+1), Domain: "f"}
		m.Functions = append(m.Functions, onnxgen.Function{
			Domain: "f", Name: fmt.Sprintf("F%d", i),
			Nodes: []onnxgen.Node{call, call},
		})
	}
	m.Functions = append(m.Functions, onnxgen.Function{Domain: "f", Name: "F60", Nodes: []onnxgen.Node{{Op: "Relu"}}})
	refusal{"", m.Bytes(), edgewise.TooLarge, "1000000 nodes once the functions are put in place"}.check(t)
}

// readMemory bounds what reading a file of any size may allocate in these tests.
const readMemory = 1 << 20

func TestReadOfHugeWeightsTakesLittleMemory(t *testing.T) {
	const weights = 1 << 30
	dir := t.TempDir()
	m := onnxgen.Scalar()
	head := message().Int(1, 8).Encoded()
	tensor := message().Int(1, weights/4).Int(2, 1).String(8, "big").Tag(9, 2).Raw(0x80, 0x80, 0x80, 0x80, 0x04).Encoded()
	rest := m.Graph.Message().Encoded()
	before := message().Tag(5, 2).Raw(uvarint(len(tensor) + weights)...).Raw(tensor...).Encoded()
	after := message().Raw(rest...).Encoded()
	graph := message().Tag(7, 2).Raw(uvarint(len(before) + weights + len(after))...).Encoded()
	sparseFile(t, filepath.Join(dir, modelFile), append(append(head, graph...), before...), weights,
		message().Raw(after...).Nested(8, message().Int(2, 13)).Encoded())
	var f *onnxfile.File
	allocated := allocatedBy(func() {
		var err error
		if f, err = onnxfile.Read(dir, modelFile, onnxfile.DefaultLimits()); err != nil {
			t.Fatal(err)
		}
	})
	if f.ParameterBytes != weights+4 {
		t.Errorf("%d bytes of weights, want %d", f.ParameterBytes, weights+4)
	}
	if allocated > readMemory {
		t.Errorf("reading allocated %d bytes, at most %d are expected", allocated, readMemory)
	}
}

func TestReadOfHugeLiesTakesLittleMemory(t *testing.T) {
	const size = 3 << 30
	length := message().Int(1, 8).Tag(7, 2).Raw(uvarint(size - 16)...)
	for _, c := range []struct {
		name string
		head []byte
		file int64
		kind edgewise.Kind
		says string
	}{
		{"file over the limit", length.Encoded(), size, edgewise.TooLarge, "at most 2147483647 are allowed"},
		{"huge graph", length.Encoded(), 0, edgewise.Invalid, "field number 0"},
		{
			"huge producer name", message().Tag(2, 2).Raw(uvarint(size - 16)...).Encoded(), 0, edgewise.TooLarge,
			"at most 4096",
		},
		{
			"huge metadata value", message().Tag(14, 2).Raw(uvarint(size-16)...).Tag(2, 2).Raw(uvarint(size - 32)...).Encoded(),
			0, edgewise.TooLarge, "at most 1048576",
		},
		{"huge dimensions", message().Tag(7, 2).Raw(uvarint(size-16)...).Tag(5, 2).Raw(uvarint(size-32)...).Tag(1,
			2).Raw(uvarint(size - 48)...).Encoded(), 0, edgewise.TooLarge, "32 dimensions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			sparseFile(t, filepath.Join(dir, modelFile), c.head, size-int64(len(c.head)), nil)
			l := onnxfile.DefaultLimits()
			if c.file == 0 {
				l.File = 4 << 30
			}
			var f *onnxfile.File
			var err error
			allocated := allocatedBy(func() { f, err = onnxfile.Read(dir, modelFile, l) })
			checkRefused(t, f, err, c.kind, c.says)
			if allocated > readMemory {
				t.Errorf("reading allocated %d bytes, at most %d are expected", allocated, readMemory)
			}
		})
	}
}

func uvarint(n int) []byte { return message().Int(1, int64(n)).Encoded()[1:] }

// sparseFile writes head, a hole and tail.
func sparseFile(t *testing.T, path string, head []byte, hole int64, tail []byte) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(len(head)) + hole
	if _, err := f.Write(head); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(tail, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(at + int64(len(tail))); err != nil {
		t.Fatal(err)
	}
}

// allocatedBy returns the bytes that do allocates in all, freed ones included.
func allocatedBy(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

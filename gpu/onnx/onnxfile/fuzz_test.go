package onnxfile

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// parseBytes parses a model beside which there is one file, weights.bin, of 8 KiB.
func parseBytes(model []byte, lim Limits) (*File, error) {
	stat := func(name string) (int64, error) {
		if name != "weights.bin" {
			return 0, invalid("file %q is not among the model's files", name)
		}
		return 8 << 10, nil
	}
	return parse(bytes.NewReader(model), int64(len(model)), disk{stat: stat, base: "."}, lim)
}

func TestParseRefusesEveryTruncation(t *testing.T) {
	for _, m := range []*onnxgen.Model{onnxgen.Scalar(), onnxgen.External(), onnxgen.OptionalInput(), onnxgen.AddSub()} {
		model := m.Bytes()
		if _, err := parseBytes(model, DefaultLimits()); err != nil {
			t.Fatalf("%s: %v", m.Graph.Name, err)
		}
		for n := range model {
			if f, err := parseBytes(model[:n], DefaultLimits()); err == nil {
				t.Fatalf("%s: the first %d of %d bytes were accepted: %+v", m.Graph.Name, n, len(model), f)
			}
		}
	}
}

func TestParseSurvivesEveryFlippedByte(t *testing.T) {
	model := onnxgen.External().Bytes()
	for i := range model {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			damaged := bytes.Clone(model)
			damaged[i] ^= flip
			checkParsed(t, damaged, DefaultLimits())
		}
	}
}

// checkParsed parses a model and checks what holds for any bytes: a known kind of refusal, or a result that keeps to
// the limits and can be shown.
func checkParsed(t *testing.T, model []byte, lim Limits) {
	t.Helper()
	f, err := parseBytes(model, lim)
	if err != nil {
		switch kind := edgewise.KindOf(err); kind {
		case edgewise.Invalid, edgewise.TooLarge, edgewise.Unsupported:
		default:
			t.Fatalf("kind %v: %v", kind, err)
		}
		if len(err.Error()) > 64<<10 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		return
	}
	switch {
	case f.Nodes > lim.Nodes, len(f.Functions) > lim.Functions, len(f.Metadata) > lim.Metadata, f.ParameterBytes > lim.Weights,
		len(f.Inputs) > lim.Signature, len(f.Outputs) > lim.Signature, len(f.Opsets) > lim.Imports:
		t.Fatalf("over a limit: %+v", f)
	case f.ParameterBytes < 0 || f.Parameters < 0:
		t.Fatalf("%d parameters of %d bytes", f.Parameters, f.ParameterBytes)
	}
	for _, name := range f.Files {
		if name != "weights.bin" {
			t.Fatalf("external data in %q", name)
		}
	}
	if _, err := json.Marshal(&f.Inspection); err != nil {
		t.Fatal(err)
	}
}

func FuzzRead(f *testing.F) {
	for _, m := range []*onnxgen.Model{
		onnxgen.Scalar(), onnxgen.External(), onnxgen.OptionalInput(), onnxgen.AddSub(),
		onnxgen.Identity(edgewise.Bytes),
	} {
		f.Add(m.Bytes())
	}
	lim := DefaultLimits()
	lim.Nodes, lim.Functions, lim.Metadata, lim.Signature, lim.Imports, lim.Weights = 16, 4, 4, 8, 4, 1<<20
	f.Fuzz(func(t *testing.T, model []byte) { checkParsed(t, model, lim) })
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []int64{1 << 20, 100 << 20} {
		model := onnxgen.Weights(size, 1).Bytes()
		b.Run(edgewise.Shape{size}.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseBytes(model, DefaultLimits()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

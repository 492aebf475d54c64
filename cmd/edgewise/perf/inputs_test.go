package perf

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

func metadata(inputs ...kserve.TensorMetadata) *kserve.ModelMetadata {
	return &kserve.ModelMetadata{Name: "m", Inputs: inputs}
}

func tensor(name, kind string, shape ...int64) kserve.TensorMetadata {
	return kserve.TensorMetadata{Name: name, Datatype: kind, Shape: shape}
}

func TestInputsOfEveryTypeAreWellFormed(t *testing.T) {
	for _, kind := range edgewise.DataTypes() {
		for _, random := range []bool{false, true} {
			tensors, batch, err := Inputs{Batch: 3, Random: random, Seed: 5}.Make(metadata(tensor("x", kind.String(), -1, 7)))
			if err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			if err := tensors[0].Check(); err != nil || batch != 3 || !tensors[0].Shape.Equal(edgewise.Shape{3, 7}) {
				t.Errorf("%v, random %v: %v, batch %d, shape %v", kind, random, err, batch, tensors[0].Shape)
			}
			zero := len(bytes.Trim(tensors[0].Data, "\x00")) == 0
			if zero == random {
				t.Errorf("%v: all zero is %v, random is %v", kind, zero, random)
			}
		}
	}
}

func TestTheSameSeedGivesTheSameInputs(t *testing.T) {
	make := func(seed uint64) []byte {
		tensors, _, err := Inputs{Random: true, Seed: seed}.Make(metadata(tensor("x", "FP32", 64)))
		if err != nil {
			t.Fatal(err)
		}
		return tensors[0].Data
	}
	if !bytes.Equal(make(1), make(1)) || bytes.Equal(make(1), make(2)) {
		t.Error("the data do not follow from the seed")
	}
}

func TestBatchIsTheFirstDimensionOfEveryInput(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      *kserve.ModelMetadata
		shapes map[string]edgewise.Shape
		batch  int
		want   int
	}{
		{"one", metadata(tensor("x", "FP32", -1, 4)), nil, 8, 8},
		{"all", metadata(tensor("x", "FP32", -1, 4), tensor("y", "FP32", -1)), nil, 8, 8},
		{"fixed", metadata(tensor("x", "FP32", 4, 4)), nil, 0, 1},
		{"one fixed", metadata(tensor("x", "FP32", -1, 4), tensor("y", "FP32", 2)), nil, 0, 1},
		{"from shape", metadata(tensor("x", "FP32", -1, -1)), map[string]edgewise.Shape{"x": {5, 2}}, 0, 5},
		{"shapes that differ", metadata(tensor("x", "FP32", -1), tensor("y", "FP32", -1)), map[string]edgewise.Shape{"x": {5}}, 0, 1},
		{"none", metadata(), nil, 0, 1},
	} {
		if _, got, err := (Inputs{Batch: c.batch, Shapes: c.shapes}).Make(c.m); err != nil || got != c.want {
			t.Errorf("%s: batch %d, %v; want %d", c.name, got, err, c.want)
		}
	}
}

func TestGivenInputIsRepeatedToTheBatch(t *testing.T) {
	given := edgewise.Tensor{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{1, 2}, Data: []byte{1, 2}}
	tensors, batch, err := Inputs{Batch: 2, Given: []edgewise.Tensor{given}}.Make(metadata(tensor("x", "UINT8", -1, 2)))
	want := []edgewise.Tensor{{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{2, 2}, Data: []byte{1, 2, 1, 2}}}
	if diff := cmp.Diff(want, tensors); err != nil || batch != 2 || diff != "" {
		t.Errorf("batch %d, %v: %s", batch, err, diff)
	}
	if !given.Shape.Equal(edgewise.Shape{1, 2}) {
		t.Errorf("the given tensor has become %v", given.Shape)
	}
}

func TestInputsThatCannotBeMadeAreRefused(t *testing.T) {
	given := func(name string, shape ...int64) []edgewise.Tensor {
		n, _ := edgewise.Shape(shape).Elements()
		return []edgewise.Tensor{{Name: name, Type: edgewise.Uint8, Shape: shape, Data: make([]byte, n)}}
	}
	shaped := func(name string, shape ...int64) map[string]edgewise.Shape {
		return map[string]edgewise.Shape{name: shape}
	}
	for _, c := range []struct {
		name string
		in   Inputs
		m    *kserve.ModelMetadata
		want string
		kind edgewise.Kind
	}{
		{"dimension nobody gave", Inputs{}, metadata(tensor("x", "FP32", -1, 3, -1)), "as --shape x:1,3,1", edgewise.Invalid},
		{"shape of no input", Inputs{Shapes: shaped("y", 1)}, metadata(tensor("x", "FP32", -1)), "no such input", edgewise.Invalid},
		{"file for no input", Inputs{Given: given("y", 1)}, metadata(tensor("x", "UINT8", -1)), "no such input", edgewise.Invalid},
		{"shape not taken", Inputs{Shapes: shaped("x", 1, 4)}, metadata(tensor("x", "FP32", -1, 3)), "takes [-1,3]", edgewise.Invalid},
		{
			"shape against batch",
			Inputs{Batch: 2, Shapes: shaped("x", 1, 3)},
			metadata(tensor("x", "FP32", -1, 3)),
			"not the batch of 2", edgewise.Invalid,
		},
		{"batch against fixed", Inputs{Batch: 2}, metadata(tensor("x", "FP32", 1, 3)), "is always 1", edgewise.Invalid},
		{"file not taken", Inputs{Given: given("x", 1, 4)}, metadata(tensor("x", "UINT8", -1, 3)), "takes [-1,3]", edgewise.Invalid},
		{
			"file not repeatable",
			Inputs{Batch: 4, Given: given("x", 2)},
			metadata(tensor("x", "UINT8", -1)),
			"cannot be repeated", edgewise.Invalid,
		},
		{"batch too large", Inputs{Batch: MaxBatch + 1}, metadata(tensor("x", "FP32", -1)), "1 to 65536", edgewise.Invalid},
		{"batch negative", Inputs{Batch: -1}, metadata(tensor("x", "FP32", -1)), "1 to 65536", edgewise.Invalid},
		{"unknown type", Inputs{}, metadata(tensor("x", "FP8", -1)), "does not know", edgewise.Unsupported},
		{"too large", Inputs{Shapes: shaped("x", 1<<28+1)}, metadata(tensor("x", "FP32", -1)), "more than 1073741824 bytes", edgewise.TooLarge},
		{
			"overflow",
			Inputs{Shapes: shaped("x", 1<<40, 1<<40)},
			metadata(tensor("x", "FP32", -1, -1)),
			"more than 1073741824 bytes", edgewise.TooLarge,
		},
		{
			"repeated too often",
			Inputs{Batch: MaxBatch, Given: given("x", 1, 16385)},
			metadata(tensor("x", "UINT8", -1, -1)),
			"more than 1073741824 bytes", edgewise.TooLarge,
		},
	} {
		_, _, err := c.in.Make(c.m)
		if err == nil || !strings.Contains(err.Error(), c.want) || edgewise.KindOf(err) != c.kind {
			t.Errorf("%s: got %v, want kind %v with %q", c.name, err, c.kind, c.want)
		}
	}
}

func TestShapesAreParsed(t *testing.T) {
	for _, c := range []struct {
		text, name string
		want       edgewise.Shape
	}{
		{"x:1,3,224,224", "x", edgewise.Shape{1, 3, 224, 224}},
		{"input:0:1,2", "input:0", edgewise.Shape{1, 2}},
		{"x:0", "x", edgewise.Shape{0}},
		{"scalar:", "scalar", edgewise.Shape{}},
		{"r:" + strings.Repeat("1,", edgewise.MaxRank-1) + "1", "r", slicesOfOnes(edgewise.MaxRank)},
	} {
		name, shape, err := ParseShape(c.text)
		if err != nil || name != c.name || !shape.Equal(c.want) {
			t.Errorf("%q: %q %v %v", c.text, name, shape, err)
		}
	}
	for _, text := range []string{"", "x", ":1", "x:a", "x:-1", "x:1,,2", "r:" + strings.Repeat("1,", edgewise.MaxRank) + "1"} {
		if _, shape, err := ParseShape(text); err == nil {
			t.Errorf("%q is read as %v", text, shape)
		}
	}
}

func slicesOfOnes(n int) edgewise.Shape {
	s := make(edgewise.Shape, n)
	for i := range s {
		s[i] = 1
	}
	return s
}

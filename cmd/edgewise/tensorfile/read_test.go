package tensorfile

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

func TestReadRawFindsTheOpenDimension(t *testing.T) {
	for _, test := range []struct {
		name  string
		shape edgewise.Shape
		bytes int
		want  edgewise.Shape
	}{
		{"fixed", edgewise.Shape{2, 3}, 6, edgewise.Shape{2, 3}},
		{"one open", edgewise.Shape{-1, 3}, 6, edgewise.Shape{2, 3}},
		{"open batch beside an open size", edgewise.Shape{-1, 3, -1}, 6, edgewise.Shape{1, 3, 2}},
		{"scalar", edgewise.Shape{}, 1, edgewise.Shape{}},
		{"nothing", edgewise.Shape{-1}, 0, edgewise.Shape{0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := edgewise.Spec{Name: "x", Type: edgewise.Uint8, Shape: test.shape}
			got, err := Read(write(t, "x.bin", make([]byte, test.bytes)), spec, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !got.Shape.Equal(test.want) {
				t.Errorf("shape %v, want %v", got.Shape, test.want)
			}
		})
	}
}

func TestReadRefusesAndNamesTheFile(t *testing.T) {
	for _, test := range []struct {
		name, file, content, message string
		spec                         edgewise.Spec
	}{
		{"unknown extension", "x.txt", "1", "cannot tell what is in it", edgewise.Spec{Type: edgewise.FP32}},
		{
			"part of an element", "x.bin", "12345", "5 bytes are not a whole number of 4-byte elements",
			edgewise.Spec{Type: edgewise.FP32, Shape: edgewise.Shape{-1}},
		},
		{"too few elements", "x.bin", "1234", "the file has 1 elements", edgewise.Spec{Type: edgewise.FP32, Shape: edgewise.Shape{2}}},
		{"does not divide", "x.bin", "123", "the file has 3 elements", edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, 2}}},
		{
			"several open sizes", "x.bin", "123", "do not say how large each -1",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{3, -1, -1}},
		},
		{"whole file for two elements", "x.png", "123", "the file has 1 elements", edgewise.Spec{Type: edgewise.Bytes, Shape: edgewise.Shape{2}}},
		{
			"shape that overflows", "x.bin", "1", "is too large",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{math.MaxInt64, math.MaxInt64}},
		},
		{"no picture", "x.png", "123", "not a picture", edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, -1, 3}}},
		{"no sound", "x.wav", "123", "not a WAV file", edgewise.Spec{Type: edgewise.FP32, Shape: edgewise.Shape{-1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.file, []byte(test.content))
			_, err := Read(path, test.spec, Options{})
			wantError(t, err, edgewise.Invalid, path, test.message)
		})
	}
}

func TestReadTellsWhyAFileCannotBeOpened(t *testing.T) {
	spec := edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1}}
	folder := filepath.Join(t.TempDir(), "folder.bin")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Read(folder, spec, Options{})
	wantError(t, err, edgewise.Invalid, folder, "is a folder")
	_, err = Read(folder+".bin", spec, Options{})
	wantError(t, err, edgewise.NotFound, folder+".bin")
}

func TestReadRefusesAFileOverTheBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bin")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(MaxFileBytes + 1); err != nil { // takes no room: nothing is written
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Read(path, edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1}}, Options{})
	wantError(t, err, edgewise.TooLarge, path, "1073741824")
}

func TestAFileThatGrowsWhileItIsReadIsBounded(t *testing.T) {
	path := write(t, "x.bin", make([]byte, 11))
	_, err := readBounded("test", path, 10)
	wantError(t, err, edgewise.TooLarge, path, "at most 10")
	if _, err := readBounded("test", "/dev/zero", 10); err == nil {
		t.Error("an endless file was read: want an error")
	} else {
		wantError(t, err, edgewise.TooLarge, "more than the 10 bytes")
	}
}

func TestBytesInputTakesAFileUnread(t *testing.T) {
	got, err := Read(write(t, "x.png", []byte("no picture at all")),
		edgewise.Spec{Name: "x", Type: edgewise.Bytes, Shape: edgewise.Shape{-1, 1}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := edgewise.Tensor{
		Name: "x", Type: edgewise.Bytes, Shape: edgewise.Shape{1, 1},
		Data: edgewise.AppendElement(nil, "no picture at all"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadJSON(t *testing.T) {
	for _, test := range []struct {
		name, json string
		spec       edgewise.Spec
		want       edgewise.Shape
		data       []byte
	}{
		{"nested", "[[1,2],[3,4]]", edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, -1}}, edgewise.Shape{2, 2}, []byte{1, 2, 3, 4}},
		{"flat", "[1,2,3,4]", edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, 2}}, edgewise.Shape{2, 2}, []byte{1, 2, 3, 4}},
		{
			"without batch", "[[1,2],[3,4]]",
			edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{-1, 2, 2}},
			edgewise.Shape{1, 2, 2},
			[]byte{1, 2, 3, 4},
		},
		{"scalar", "7", edgewise.Spec{Type: edgewise.Int8, Shape: edgewise.Shape{1}}, edgewise.Shape{1}, []byte{7}},
		{"negative", "[-2]", edgewise.Spec{Type: edgewise.Int16, Shape: edgewise.Shape{1}}, edgewise.Shape{1}, []byte{0xfe, 0xff}},
		{"booleans", "[true,false]", edgewise.Spec{Type: edgewise.Bool, Shape: edgewise.Shape{2}}, edgewise.Shape{2}, []byte{1, 0}},
		{"strings", `["é"]`, edgewise.Spec{Type: edgewise.Bytes, Shape: edgewise.Shape{1}}, edgewise.Shape{1}, []byte("\x02\x00\x00\x00é")},
		{"half", "[1.5]", edgewise.Spec{Type: edgewise.FP16, Shape: edgewise.Shape{1}}, edgewise.Shape{1}, []byte{0, 0x3e}},
		{"brain", "[1.5]", edgewise.Spec{Type: edgewise.BF16, Shape: edgewise.Shape{1}}, edgewise.Shape{1}, []byte{0xc0, 0x3f}},
		{"integer as float", "[2]", edgewise.Spec{Type: edgewise.FP32, Shape: edgewise.Shape{1}}, edgewise.Shape{1}, []byte{0, 0, 0, 0x40}},
		{
			"largest integer", "[18446744073709551615]",
			edgewise.Spec{Type: edgewise.Uint64, Shape: edgewise.Shape{1}},
			edgewise.Shape{1},
			[]byte{255, 255, 255, 255, 255, 255, 255, 255},
		},
		{"empty", "[]", edgewise.Spec{Type: edgewise.FP32, Shape: edgewise.Shape{-1}}, edgewise.Shape{0}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Read(write(t, "x.json", []byte(test.json)), test.spec, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(edgewise.Tensor{Type: test.spec.Type, Shape: test.want, Data: test.data}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadJSONRefuses(t *testing.T) {
	deep := make([]byte, edgewise.MaxRank+1)
	for i := range deep {
		deep[i] = '['
	}
	for _, test := range []struct {
		name, json, message string
		kind                edgewise.DataType
	}{
		{"nothing", "", "EOF", edgewise.FP32},
		{"cut off", "[1,2", "EOF", edgewise.FP32},
		{"two values", "[1] [2]", "text follows the array", edgewise.FP32},
		{"object", `{"a":1}`, "want arrays of FP32", edgewise.FP32},
		{"ragged", "[[1,2],[3]]", "1 elements where the ones before have 2", edgewise.FP32},
		{"element beside an array", "[[1],2]", "an element stands beside an array", edgewise.FP32},
		{"array beside an element", "[1,[2]]", "an array stands beside an element", edgewise.FP32},
		{"array below elements", "[[1,[2]],[3,4]]", "an array stands beside an element", edgewise.FP32},
		{"too deep", string(deep), "nested deeper than 32", edgewise.FP32},
		{"string for a number", `["1"]`, "element 1: want FP32", edgewise.FP32},
		{"number for a boolean", "[1]", "want BOOL", edgewise.Bool},
		{"null", "[null]", "want FP32", edgewise.FP32},
		{"fraction for an integer", "[1.5]", "1.5 is not an integer that fits in INT8", edgewise.Int8},
		{"integer over its type", "[128]", "does not fit in INT8", edgewise.Int8},
		{"negative unsigned", "[-1]", "fits in UINT8", edgewise.Uint8},
		{"float over its type", "[1e39]", "1e39 does not fit in FP32", edgewise.FP32},
		{"half over its type", "[65520]", "65520 does not fit in FP16", edgewise.FP16},
		{"double over its type", "[1e309]", "1e309 does not fit in FP64", edgewise.FP64},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, "x.json", []byte(test.json))
			_, err := Read(path, edgewise.Spec{Name: "x", Type: test.kind, Shape: edgewise.Shape{-1}}, Options{})
			if test.name == "integer over its type" {
				wantError(t, err, edgewise.Invalid, path, "128 is not an integer that fits in INT8")
				return
			}
			wantError(t, err, edgewise.Invalid, path, test.message)
		})
	}
}

func FuzzDecodeJSON(f *testing.F) {
	f.Add([]byte("[[1,2],[3,4]]"), uint8(edgewise.FP32))
	f.Add([]byte(`["a"]`), uint8(edgewise.Bytes))
	f.Fuzz(func(t *testing.T, file []byte, kind uint8) {
		tensor, err := decodeJSON(file, edgewise.Spec{
			Type:  edgewise.Bool + edgewise.DataType(kind)%edgewise.BF16,
			Shape: edgewise.Shape{-1, -1},
		}, Options{})
		tensor.Type = edgewise.Bool + edgewise.DataType(kind)%edgewise.BF16
		if err == nil && tensor.Check() != nil {
			t.Fatalf("made a tensor that is none: %v", tensor.Check())
		}
	})
}

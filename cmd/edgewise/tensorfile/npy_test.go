package tensorfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/npy"
)

// fixedTypes are the types whose elements have one size.
func fixedTypes() []edgewise.DataType {
	return []edgewise.DataType{
		edgewise.Bool, edgewise.Uint8, edgewise.Uint16, edgewise.Uint32, edgewise.Uint64, edgewise.Int8, edgewise.Int16,
		edgewise.Int32, edgewise.Int64, edgewise.FP16, edgewise.FP32, edgewise.FP64, edgewise.BF16,
	}
}

// write puts data into a new file and returns its path.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// npy writes an array by hand, so that the reader is not tested against our own writer only.
func array(header string, body ...byte) []byte {
	header += "\n"
	return append(append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8)), append([]byte(header), body...)...)
}

func TestNpyComesBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(append(fixedTypes(), edgewise.Bytes)).Draw(t, "type")
		shape := edgewise.Shape(rapid.SliceOfN(rapid.Int64Range(0, 4), 0, 4).Draw(t, "shape"))
		n, _ := shape.Elements()
		var data []byte
		for range n {
			if kind == edgewise.Bytes {
				data = edgewise.AppendElement(data, rapid.StringMatching(`([a-zé\x00]*[a-zé])?`).Draw(t, "element"))
				continue
			}
			element := rapid.SliceOfN(rapid.Byte(), int(kind.Size()), int(kind.Size())).Draw(t, "element")
			if kind == edgewise.Bool {
				element[0] &= 1
			}
			data = append(data, element...)
		}
		want := edgewise.Tensor{Name: "x", Type: kind, Shape: append(edgewise.Shape{}, shape...), Data: data}
		var file bytes.Buffer
		if err := npy.Write(&file, want); err != nil {
			t.Fatal(err)
		}
		got, err := decodeNpy(file.Bytes(), edgewise.Spec{Name: "x", Type: kind, Shape: shape}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !got.Shape.Equal(want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Fatalf("wrote %v %x, read %v %x", want.Shape, want.Data, got.Shape, got.Data)
		}
	})
}

func TestNpyDataBeginsAtAMultipleOf64(t *testing.T) {
	for rank := range 20 {
		var file bytes.Buffer
		tensor := edgewise.Tensor{Type: edgewise.Uint8, Shape: make(edgewise.Shape, rank), Data: []byte{7}}
		for i := range tensor.Shape {
			tensor.Shape[i] = 1
		}
		if err := npy.Write(&file, tensor); err != nil {
			t.Fatal(err)
		}
		if file.Len()%64 != 1 {
			t.Errorf("rank %d: the file has %d bytes, want a multiple of 64 and one", rank, file.Len())
		}
	}
}

func TestNpyReadsWhatNumPyWrites(t *testing.T) {
	for _, test := range []struct {
		name string
		file []byte
		spec edgewise.Spec
		want edgewise.Tensor
	}{
		{
			name: "column-major order is put right",
			file: array("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", 1, 4, 2, 5, 3, 6),
			spec: edgewise.Spec{Type: edgewise.Uint8, Shape: edgewise.Shape{2, 3}},
			want: edgewise.Tensor{Type: edgewise.Uint8, Shape: edgewise.Shape{2, 3}, Data: []byte{1, 2, 3, 4, 5, 6}},
		},
		{
			name: "big-endian elements are turned round",
			file: array("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", 1, 2, 3, 4),
			spec: edgewise.Spec{Type: edgewise.Int16, Shape: edgewise.Shape{-1}},
			want: edgewise.Tensor{Type: edgewise.Int16, Shape: edgewise.Shape{2}, Data: []byte{2, 1, 4, 3}},
		},
		{
			name: "unicode strings become UTF-8",
			file: array("{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }", 0xe9, 0, 0, 0, 'a', 0, 0, 0, 'b', 0, 0, 0, 0, 0, 0, 0),
			spec: edgewise.Spec{Type: edgewise.Bytes, Shape: edgewise.Shape{-1}},
			want: edgewise.Tensor{Type: edgewise.Bytes, Shape: edgewise.Shape{2}, Data: []byte("\x03\x00\x00\x00\xc3\xa9a\x01\x00\x00\x00b")},
		},
		{
			name: "a scalar has no dimensions",
			file: array("{'descr': '<f2', 'fortran_order': False, 'shape': (), }", 0, 0x3c),
			spec: edgewise.Spec{Type: edgewise.FP16, Shape: edgewise.Shape{}},
			want: edgewise.Tensor{Type: edgewise.FP16, Shape: edgewise.Shape{}, Data: []byte{0, 0x3c}},
		},
		{
			name: "a missing batch dimension is added",
			file: array("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", 0, 2),
			spec: edgewise.Spec{Type: edgewise.Bool, Shape: edgewise.Shape{-1, 2}},
			want: edgewise.Tensor{Type: edgewise.Bool, Shape: edgewise.Shape{1, 2}, Data: []byte{0, 1}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Read(write(t, "a.npy", test.file), test.spec, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNpyRefusesWhatDoesNotFit(t *testing.T) {
	good := "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
	for _, test := range []struct {
		name, message string
		file          []byte
	}{
		{"nothing", "does not begin like a NumPy file", nil},
		{"magic only", "does not begin like a NumPy file", []byte(npy.Magic)},
		{"future version", "version 9", append([]byte(npy.Magic), 9, 0, 0, 0, 0, 0, 0, 0)},
		{"header longer than the file", "its NumPy header says it has 65535 bytes", append([]byte(npy.Magic), 1, 0, 255, 255, 0, 0)},
		{"header over the bound", "at most 1048576", append([]byte(npy.Magic), 2, 0, 1, 0, 16, 0)},
		{"header without shape", "cannot read its NumPy header", array("{'descr': '<f4', 'fortran_order': False}")},
		{"record type", "cannot read its NumPy header", array("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}")},
		{"too few bytes", "but 3 bytes follow", array(good, 1, 2, 3)},
		{"too many bytes", "but 5 bytes follow", array(good, 1, 2, 3, 4, 5)},
		{
			"another type", `convert them with astype("f4")`,
			array("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 1, 2, 3, 4, 5, 6, 7, 8),
		},
		{"objects", "Python objects", array("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 1)},
		{"negative size", "not one of at most 32 sizes", array("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 1, 2, 3, 4)},
		{"size that overflows", "bytes follow", array("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 4)}", 1, 2, 3, 4)},
		{
			"33 dimensions", "not one of at most 32 sizes",
			array("{'descr': '<f4', 'fortran_order': False, 'shape': ("+strings.Repeat("1,", 33)+")}", 1, 2, 3, 4),
		},
		{"another shape", "the shape is [2]", array("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 1, 2, 3, 4, 5, 6, 7, 8)},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, "a.npy", test.file)
			_, err := Read(path, edgewise.Spec{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1}}, Options{})
			wantError(t, err, edgewise.Invalid, path, test.message)
		})
	}
}

func TestNpyRefusesUnreasonablyManyEmptyStrings(t *testing.T) {
	file := array("{'descr': '|S0', 'fortran_order': False, 'shape': (268435457,), }")
	_, err := decodeNpy(file, edgewise.Spec{Type: edgewise.Bytes, Shape: edgewise.Shape{-1}}, Options{})
	wantError(t, err, edgewise.Invalid, "268435456")
}

func TestNpyWritingRefusesStringsThatNumPyWouldChange(t *testing.T) {
	tensor := edgewise.Tensor{Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, "a\x00")}
	wantError(t, npy.Write(&bytes.Buffer{}, tensor), edgewise.Invalid, `tensor "y"`, "ends in NUL")
}

func FuzzDecodeNpy(f *testing.F) {
	f.Add(array("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", 1, 2, 3, 4), uint8(edgewise.FP32))
	f.Add(array("{'descr': '<U1', 'fortran_order': True, 'shape': (1,), }", 1, 0, 0, 0), uint8(edgewise.Bytes))
	f.Fuzz(func(t *testing.T, file []byte, kind uint8) {
		tensor, err := decodeNpy(file, edgewise.Spec{
			Type:  edgewise.Bool + edgewise.DataType(kind)%edgewise.BF16,
			Shape: edgewise.Shape{-1},
		}, Options{})
		tensor.Type = edgewise.Bool + edgewise.DataType(kind)%edgewise.BF16
		if err == nil && tensor.Check() != nil {
			t.Fatalf("made a tensor that is none: %v", tensor.Check())
		}
	})
}

// wantError checks the kind of err and that its message has all the parts.
func wantError(t *testing.T, err error, kind edgewise.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error: want one with %q", parts)
	}
	if edgewise.KindOf(err) != kind {
		t.Errorf("%v: kind %v, want %v", err, edgewise.KindOf(err), kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q: want a message with %q", err, part)
		}
	}
}

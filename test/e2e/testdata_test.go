package e2e

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
)

// backendData is where Debian's package libonnx-testdata puts the backend models of ONNX.
const backendData = "/usr/share/libonnx-testdata/data"

// backendModel is one model of the package, with the folders of its test inputs.
type backendModel struct {
	name string // folder and name, such as "node/test_abs"
	file string
	sets []string
}

// backendModels lists all models of the package by name.
func backendModels(t *testing.T) []backendModel {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(backendData, "*", "*", "model.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no models below %s: install Debian's package libonnx-testdata, as \"make test\" does (%v)", backendData, err)
	}
	models := make([]backendModel, 0, len(files))
	for _, file := range files {
		dir := filepath.Dir(file)
		name, err := filepath.Rel(backendData, dir)
		if err != nil {
			t.Fatal(err)
		}
		sets, err := filepath.Glob(filepath.Join(dir, "test_data_set_*"))
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, backendModel{name, file, sets})
	}
	return models
}

// protoTypes are the data types by their number in a TensorProto.
var protoTypes = map[uint64]edgewise.DataType{
	1: edgewise.FP32, 2: edgewise.Uint8, 3: edgewise.Int8, 4: edgewise.Uint16, 5: edgewise.Int16, 6: edgewise.Int32,
	7: edgewise.Int64, 8: edgewise.Bytes,
	9: edgewise.Bool, 10: edgewise.FP16, 11: edgewise.FP64, 12: edgewise.Uint32, 13: edgewise.Uint64, 16: edgewise.BF16,
}

// readTensor reads a file with a TensorProto.
func readTensor(file string) (edgewise.Tensor, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	t := edgewise.Tensor{Shape: edgewise.Shape{}}
	var numbers []uint64
	err = eachField(data, func(number protowire.Number, value uint64, content []byte) error {
		switch number {
		case 1:
			t.Shape = append(t.Shape, asInts(value, content)...)
		case 2:
			t.Type = protoTypes[value]
		case 4, 10, 9:
			t.Data = append(t.Data, content...)
		case 5, 7, 11:
			for _, v := range asInts(value, content) {
				numbers = append(numbers, uint64(v))
			}
		case 6:
			t.Data = edgewise.AppendElement(t.Data, string(content))
		case 8:
			t.Name = string(content)
		}
		return nil
	})
	for _, v := range numbers {
		t.Data = append(t.Data, binary.LittleEndian.AppendUint64(nil, v)[:t.Type.Size()]...)
	}
	if err == nil {
		err = t.Check()
	}
	return t, err
}

// asInts returns the numbers of a field that may be packed.
func asInts(value uint64, packed []byte) (list []int64) {
	if packed == nil {
		return []int64{int64(value)}
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return list
		}
		list, packed = append(list, int64(v)), packed[n:]
	}
	return list
}

// eachField calls f for each field of a message; content is nil for numbers.
func eachField(data []byte, f func(number protowire.Number, value uint64, content []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		var value uint64
		var content []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			content = binary.LittleEndian.AppendUint32(nil, v)
		case protowire.Fixed64Type:
			var v uint64
			v, n = protowire.ConsumeFixed64(data)
			content = binary.LittleEndian.AppendUint64(nil, v)
		default:
			return fmt.Errorf("wire type %d", kind)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, value, content); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// sameTensor says how two outputs differ, "" when they do not. All NaNs are the same; a tensor without dimensions may
// come as one with a single element.
func sameTensor(got, want edgewise.Tensor) string {
	scalar := len(want.Shape) == 0 && got.Shape.Equal(edgewise.Shape{1})
	switch {
	case got.Type != want.Type:
		return fmt.Sprintf("output %q: got type %v, want %v", want.Name, got.Type, want.Type)
	case !got.Shape.Equal(want.Shape) && !scalar:
		return fmt.Sprintf("output %q: got shape %v, want %v", want.Name, got.Shape, want.Shape)
	case len(got.Data) != len(want.Data):
		return fmt.Sprintf("output %q: got %d bytes, want %d", want.Name, len(got.Data), len(want.Data))
	}
	size := max(int(want.Type.Size()), 1)
	for at := 0; at < len(want.Data); at += size {
		a, b := got.Data[at:at+size], want.Data[at:at+size]
		if string(a) != string(b) && !(isNaN(want.Type, a) && isNaN(want.Type, b)) {
			return fmt.Sprintf("output %q: byte %d differs: got %x, want %x", want.Name, at, a, b)
		}
	}
	return ""
}

func isNaN(t edgewise.DataType, bits []byte) bool {
	switch t {
	case edgewise.FP64:
		return math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(bits)))
	case edgewise.FP32:
		return math.IsNaN(float64(math.Float32frombits(binary.LittleEndian.Uint32(bits))))
	case edgewise.FP16:
		return binary.LittleEndian.Uint16(bits)&0x7fff > 0x7c00
	case edgewise.BF16:
		return binary.LittleEndian.Uint16(bits)&0x7fff > 0x7f80
	}
	return false
}

// modelName makes a name that a box takes of a model's.
func modelName(name string) string { return strings.NewReplacer("/", ".").Replace(name) }

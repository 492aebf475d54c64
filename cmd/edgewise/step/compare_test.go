package step

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func fp32(values ...float32) edgewise.Tensor {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{int64(len(values))}, Data: data}
}

func tensorOf(kind edgewise.DataType, data ...byte) edgewise.Tensor {
	return edgewise.Tensor{Name: "y", Type: kind, Shape: edgewise.Shape{int64(len(data))}, Data: data}
}

func whole64(v int64) edgewise.Tensor {
	return edgewise.Tensor{Name: "y", Type: edgewise.Int64, Shape: edgewise.Shape{1}, Data: binary.LittleEndian.AppendUint64(nil, uint64(v))}
}

func TestCompareNamesTheFirstDifference(t *testing.T) {
	nan := float32(math.NaN())
	ints := edgewise.Tensor{Name: "y", Type: edgewise.Int32, Shape: edgewise.Shape{1}, Data: []byte{1, 0, 0, 0}}
	other := edgewise.Tensor{Name: "y", Type: edgewise.Int32, Shape: edgewise.Shape{1}, Data: []byte{2, 0, 0, 0}}
	words := edgewise.Tensor{
		Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{2},
		Data: edgewise.AppendElement(edgewise.AppendElement(nil, "a"), "b"),
	}
	wrong := edgewise.Tensor{
		Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{2},
		Data: edgewise.AppendElement(edgewise.AppendElement(nil, "a"), "c"),
	}
	tests := []struct {
		name      string
		got, want edgewise.Tensor
		tolerance float64
		problem   string
	}{
		{"equal", fp32(1, 2), fp32(1, 2), 0, ""},
		{"within", fp32(1, 100), fp32(1.05, 104), 0.06, ""},
		{"beyond", fp32(1, 100), fp32(1, 104), 0.03, `output "y", element 1 of [2], is 100: want 104`},
		{"no tolerance", fp32(1), fp32(math.Nextafter32(1, 2)), 0, `output "y", element 0`},
		{"both NaN", fp32(nan), fp32(float32(math.Float32frombits(0x7fc00001))), 0, ""},
		{"one NaN", fp32(nan), fp32(1), 1e9, "is NaN: want 1"},
		{"signed zeros", fp32(0), fp32(float32(math.Copysign(0, -1))), 0, ""},
		{"infinity", fp32(float32(math.Inf(1))), fp32(1), 0.5, "is +Inf: want 1"},
		{"shape", fp32(1, 2), fp32(1), 0, `output "y" is FP32[2]: want FP32[1]`},
		{"type", ints, fp32(1), 0, `output "y" is INT32[1]: want FP32[1]`},
		{"whole numbers within", ints, other, 1, ""},
		{"whole numbers beyond", ints, other, 0.4, "is 1: want 2"},
		{"whole numbers without a tolerance", ints, other, 0, "is 1: want 2"},
		{"large whole numbers", whole64(1<<62 + 1), whole64(1<<62 + 2), 0, "is 4611686018427387905: want 4611686018427387906"},
		{"the largest distance", whole64(-1 << 63), whole64(1<<63 - 1), 1, "is -9223372036854775808: want 9223372036854775807"},
		{"bytes of a picture", tensorOf(edgewise.Uint8, 0, 255), tensorOf(edgewise.Uint8, 1, 254), 1, ""},
		{"bytes of a picture beyond", tensorOf(edgewise.Uint8, 0, 255), tensorOf(edgewise.Uint8, 2, 255), 0.9, "element 0 of [2], is 0: want 2"},
		{"negative ones", tensorOf(edgewise.Int8, 0xff), tensorOf(edgewise.Int8, 1), 2, ""},
		{"negative ones beyond", tensorOf(edgewise.Int8, 0xff), tensorOf(edgewise.Int8, 1), 1.9, "is -1: want 1"},
		{"truth has no tolerance", tensorOf(edgewise.Bool, 1), tensorOf(edgewise.Bool, 0), 5, "is 1: want 0"},
		{"text", words, words, 0, ""},
		{"other text", words, wrong, 1, `output "y", element 1 of [2], is "b": want "c"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := compare(&tt.got, &tt.want, tt.tolerance)
			if (tt.problem == "") != (got == "") || !strings.Contains(got, tt.problem) {
				t.Errorf("%q: want %q", got, tt.problem)
			}
		})
	}
}

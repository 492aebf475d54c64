package samples

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// Floats makes an FP32 tensor.
func Floats(name string, values []float32, shape ...int64) edgewise.Tensor {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape, Data: data}
}

// Values reads an FP32 tensor.
func Values(t edgewise.Tensor) []float32 {
	v := make([]float32, len(t.Data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
	}
	return v
}

// Elements makes a BYTES vector.
func Elements[S ~string | ~[]byte](name string, list ...S) edgewise.Tensor {
	var data []byte
	for _, e := range list {
		data = edgewise.AppendElement(data, string(e))
	}
	return edgewise.Tensor{Name: name, Type: edgewise.Bytes, Shape: edgewise.Shape{int64(len(list))}, Data: data}
}

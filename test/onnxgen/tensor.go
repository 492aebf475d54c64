package onnxgen

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// Type is an ONNX element type.
type Type int32

// The element types that models here use.
const (
	Float    Type = 1
	Uint8    Type = 2
	Int8     Type = 3
	Uint16   Type = 4
	Int16    Type = 5
	Int32    Type = 6
	Int64    Type = 7
	String   Type = 8
	Bool     Type = 9
	Float16  Type = 10
	Double   Type = 11
	Uint32   Type = 12
	Uint64   Type = 13
	Complex  Type = 14
	Bfloat16 Type = 16
	Float8   Type = 17
	Int4     Type = 22
)

// TypeOf returns the ONNX type of a data type, 0 for InvalidType.
func TypeOf(t edgewise.DataType) Type {
	return map[edgewise.DataType]Type{
		edgewise.Bool: Bool, edgewise.Uint8: Uint8, edgewise.Uint16: Uint16, edgewise.Uint32: Uint32, edgewise.Uint64: Uint64,
		edgewise.Int8: Int8, edgewise.Int16: Int16, edgewise.Int32: Int32, edgewise.Int64: Int64, edgewise.FP16: Float16,
		edgewise.FP32: Float, edgewise.FP64: Double, edgewise.Bytes: String, edgewise.BF16: Bfloat16,
	}[t]
}

// Tensor is a constant. Its elements are Data as raw bytes, written Times over (0 is once), or stand in another file.
type Tensor struct {
	Name     string
	Type     Type
	Dims     []int64
	Data     []byte
	Times    int
	External []Entry // the keys and values of external_data; sets data_location
	Extra    *Message
}

// Message returns the tensor in its wire form.
func (t *Tensor) Message() *Message {
	w := new(Message)
	for _, d := range t.Dims {
		w.Int(1, d)
	}
	if t.Type != 0 {
		w.Int(2, int64(t.Type))
	}
	w.Text(8, t.Name)
	if t.Data != nil {
		w.Repeated(9, t.Data, max(1, t.Times))
	}
	for _, e := range t.External {
		w.Nested(13, e.message())
	}
	if t.External != nil {
		w.Int(14, 1)
	}
	return w.Raw(t.Extra.all()...)
}

// Floats makes a float tensor from its elements, in the order of rows.
func Floats(name string, dims []int64, values ...float32) Tensor {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return Tensor{Name: name, Type: Float, Dims: dims, Data: b}
}

// Ints64 makes an int64 tensor from its elements.
func Ints64(name string, dims []int64, values ...int64) Tensor {
	b := make([]byte, 0, 8*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return Tensor{Name: name, Type: Int64, Dims: dims, Data: b}
}

// In places a tensor's data in a file: it returns t with external data instead of its own, at offset.
func (t Tensor) In(file string, offset int64) Tensor {
	t.External = []Entry{{"location", file}, {"offset", fmt.Sprint(offset)}, {"length", fmt.Sprint(len(t.Data))}}
	t.Data = nil
	return t
}

// Sparse makes a SparseTensorProto of values at indices in a tensor of dims.
func Sparse(values, indices Tensor, dims ...int64) *Message {
	w := new(Message).Nested(1, values.Message()).Nested(2, indices.Message())
	for _, d := range dims {
		w.Int(3, d)
	}
	return w
}

package onnxfile

import (
	"fmt"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// dataField says in which field of a TensorProto the elements of a type stand when they are not raw bytes.
type dataField uint8

const (
	noData dataField = iota
	floatData
	int32Data
	stringData
	int64Data
	doubleData
	uint64Data
	dataFields
)

// element describes an ONNX element type.
type element struct {
	name string
	host edgewise.DataType // InvalidType when requests cannot carry it
	bits int64             // 0 for strings
	data dataField
}

// elements lists the element types by their ONNX number.
var elements = [...]element{
	1:  {"float", edgewise.FP32, 32, floatData},
	2:  {"uint8", edgewise.Uint8, 8, int32Data},
	3:  {"int8", edgewise.Int8, 8, int32Data},
	4:  {"uint16", edgewise.Uint16, 16, int32Data},
	5:  {"int16", edgewise.Int16, 16, int32Data},
	6:  {"int32", edgewise.Int32, 32, int32Data},
	7:  {"int64", edgewise.Int64, 64, int64Data},
	8:  {"string", edgewise.Bytes, 0, stringData},
	9:  {"bool", edgewise.Bool, 8, int32Data},
	10: {"float16", edgewise.FP16, 16, int32Data},
	11: {"double", edgewise.FP64, 64, doubleData},
	12: {"uint32", edgewise.Uint32, 32, uint64Data},
	13: {"uint64", edgewise.Uint64, 64, uint64Data},
	14: {"complex64", edgewise.InvalidType, 64, floatData},
	15: {"complex128", edgewise.InvalidType, 128, doubleData},
	16: {"bfloat16", edgewise.BF16, 16, int32Data},
	17: {"float8e4m3fn", edgewise.InvalidType, 8, int32Data},
	18: {"float8e4m3fnuz", edgewise.InvalidType, 8, int32Data},
	19: {"float8e5m2", edgewise.InvalidType, 8, int32Data},
	20: {"float8e5m2fnuz", edgewise.InvalidType, 8, int32Data},
	21: {"uint4", edgewise.InvalidType, 4, int32Data},
	22: {"int4", edgewise.InvalidType, 4, int32Data},
	23: {"float4e2m1", edgewise.InvalidType, 4, int32Data},
	24: {"float8e8m0", edgewise.InvalidType, 8, int32Data},
	25: {"uint2", edgewise.InvalidType, 2, int32Data},
	26: {"int2", edgewise.InvalidType, 2, int32Data},
}

// onnxNumbers are the ONNX numbers of data types.
var onnxNumbers = func() map[edgewise.DataType]int32 {
	m := map[edgewise.DataType]int32{}
	for number, e := range elements {
		if e.host != edgewise.InvalidType {
			m[e.host] = int32(number)
		}
	}
	return m
}()

// Number returns the ONNX number of a data type, 0 for InvalidType.
func Number(t edgewise.DataType) int32 { return onnxNumbers[t] }

// DataType returns the data type with an ONNX number. ok is false for types that requests cannot carry.
func DataType(number int32) (t edgewise.DataType, ok bool) {
	e, err := elementOf(number)
	return e.host, err == nil && e.host != edgewise.InvalidType
}

// elementOf returns the element type with an ONNX number.
func elementOf(number int32) (element, error) {
	if number <= 0 || int(number) >= len(elements) {
		return element{}, invalid("unknown element type %d", number)
	}
	return elements[number], nil
}

// bytes returns the size of n elements, which share bytes when they are smaller than one. ok is false on overflow.
func (e element) bytes(n int64) (size int64, ok bool) {
	if e.bits > 0 && n > (math.MaxInt64-7)/e.bits {
		return 0, false
	}
	return (n*e.bits + 7) / 8, true
}

// stored returns how many entries of the data field hold n elements.
func (e element) stored(n int64) int64 {
	switch e.name {
	case "complex64", "complex128":
		return 2 * n
	}
	if e.bits > 0 && e.bits < 8 {
		return (n*e.bits + 7) / 8
	}
	return n
}

// typeName is how types are called in messages, as in "tensor(float)".
func (e element) typeName() string { return fmt.Sprintf("tensor(%s)", e.name) }

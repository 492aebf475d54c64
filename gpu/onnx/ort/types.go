package ort

import "github.com/edgewise-ai/edgewise"

// onnxTypes maps data types to the numbers of ONNXTensorElementDataType.
var onnxTypes = [...]int32{
	edgewise.Bool: 9, edgewise.Uint8: 2, edgewise.Uint16: 4, edgewise.Uint32: 12, edgewise.Uint64: 13,
	edgewise.Int8: 3, edgewise.Int16: 5, edgewise.Int32: 6, edgewise.Int64: 7,
	edgewise.FP16: 10, edgewise.FP32: 1, edgewise.FP64: 11, edgewise.Bytes: 8, edgewise.BF16: 16,
}

// dataType is the inverse of onnxTypes. ok is false for types the protocol does not have.
func dataType(onnx int32) (t edgewise.DataType, ok bool) {
	for t, number := range onnxTypes {
		if number == onnx && edgewise.DataType(t) != edgewise.InvalidType {
			return edgewise.DataType(t), true
		}
	}
	return edgewise.InvalidType, false
}

package onnxfile_test

import (
	"bytes"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func TestReadRefusesWhatIsNotONNX(t *testing.T) {
	checkAll(t, []refusal{
		{"empty", nil, edgewise.Invalid, "empty"},
		{"text", []byte("hello, this is not a model\n"), edgewise.Invalid, "not an ONNX file: it is text"},
		{"json", []byte(`{"inputs": [1, 2, 3]}`), edgewise.Invalid, "not an ONNX file: it is text"},
		{"web page", []byte("\n<!DOCTYPE html>\n<html><head>"), edgewise.Invalid, "it is a web page"},
		{"web page without a type", []byte("<HTML lang=en>"), edgewise.Invalid, "it is a web page"},
		{"png", []byte("\x89PNG\r\n\x1a\n"), edgewise.Invalid, "a picture"},
		{"jpeg", []byte("\xff\xd8\xff\xe0\x00\x10JFIF"), edgewise.Invalid, "a picture"},
		{"zip", []byte("PK\x03\x04\x14\x00"), edgewise.Invalid, "zip archive"},
		{"elf", []byte("\x7fELF\x02\x01\x01"), edgewise.Invalid, "shared library"},
		{"gzip", []byte("\x1f\x8b\x08\x00"), edgewise.Invalid, "unpack it first"},
		{"hdf5", []byte("\x89HDF\r\n\x1a\n"), edgewise.Invalid, "HDF5"},
		{"ort flatbuffer", []byte("\x20\x00\x00\x00ORTM\x00\x00"), edgewise.Invalid, ".ort format"},
		{"tflite flatbuffer", []byte("\x20\x00\x00\x00TFL3\x00\x00"), edgewise.Invalid, "TensorFlow Lite"},
		{"git lfs pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), edgewise.Invalid, "Git LFS"},
		{"zeroes", make([]byte, 100), edgewise.Invalid, "field number 0"},
		{"ones", bytes.Repeat([]byte{0xff}, 100), edgewise.Invalid, "more than 5 bytes"},
		{"other protobuf", message().String(1, "node").Encoded(), edgewise.Invalid, `"ir_version" has wire type 2`},
		{"unknown field at the top", message().Int(1, 8).Int(9, 1).Encoded(), edgewise.Invalid, "not an ONNX file"},
	})
}

func TestReadRefusesBrokenWireFormat(t *testing.T) {
	graph := onnxgen.Scalar().Graph
	checkAll(t, []refusal{
		{
			"declared length beyond the file", message().Int(1, 8).Tag(7, 2).Raw(0xff, 0x7f).Encoded(), edgewise.Invalid,
			"16383 bytes has 0 left",
		},
		{
			"two gigabytes declared", message().Int(1, 8).Tag(7, 2).Raw(0x80, 0x80, 0x80, 0x80, 0x08).Encoded(),
			edgewise.Invalid, "2147483648 bytes",
		},
		{
			"largest length declared", message().Tag(7, 2).Raw(bytes.Repeat([]byte{0xff}, 9)...).Raw(1).Encoded(),
			edgewise.Invalid, "18446744073709551615 bytes",
		},
		{
			"number over 64 bits", message().Tag(1, 0).Raw(bytes.Repeat([]byte{0xff}, 9)...).Raw(2).Encoded(), edgewise.Invalid,
			"64 bits",
		},
		{
			"number over ten bytes", message().Tag(1, 0).Raw(bytes.Repeat([]byte{0x80}, 9)...).Raw(0x80, 1).Encoded(),
			edgewise.Invalid, "64 bits",
		},
		{"number cut off", message().Tag(1, 0).Raw(0x80).Encoded(), edgewise.Invalid, "cut off"},
		{"tag over 32 bits", message().Raw(0xff, 0xff, 0xff, 0xff, 0x7f).Encoded(), edgewise.Invalid, "field number"},
		{"group begins", message().Int(1, 8).Tag(7, 3).Tag(7, 4).Encoded(), edgewise.Invalid, "groups"},
		{"group ends", message().Int(1, 8).Tag(7, 4).Encoded(), edgewise.Invalid, "groups"},
		{
			"group in an unknown field", withNode(onnxgen.Node{Op: "Relu", Extra: message().Tag(99, 3).Tag(99, 4)}),
			edgewise.Invalid, "groups",
		},
		{"reserved wire type", message().Int(1, 8).Tag(7, 7).Encoded(), edgewise.Invalid, "wire type 7"},
		{"graph as a number", message().Int(1, 8).Int(7, 1).Encoded(), edgewise.Invalid, `"graph" has wire type 0`},
		{
			"raw_data as a number", withInitializer(onnxgen.Tensor{Name: "w", Type: onnxgen.Float, Extra: message().Int(9, 1)}),
			edgewise.Invalid, `"raw_data" has wire type 0`,
		},
		{
			"name as a float", withNode(onnxgen.Node{Op: "Relu", Extra: message().Float(3, 1)}), edgewise.Invalid,
			`"name" has wire type 5`,
		},
		{
			"graph twice", message().Int(1, 8).Nested(7, graph.Message()).Nested(7, graph.Message()).Encoded(), edgewise.Invalid,
			`"graph" is given twice`,
		},
		{"ir_version twice", message().Int(1, 8).Int(1, 9).Encoded(), edgewise.Invalid, `"ir_version" is given twice`},
		{
			"op_type twice", withNode(onnxgen.Node{Op: "Relu", Extra: message().String(4, "EPContext")}), edgewise.Invalid,
			`"op_type" is given twice`,
		},
		{"data_location twice", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Float,
			Extra: message().Int(14, 0).Int(14, 1),
		}), edgewise.Invalid, `"data_location" is given twice`},
		{"data_location of no meaning", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Float, Data: make([]byte, 4),
			Extra: message().Int(14, 1<<32+1),
		}), edgewise.Invalid, "data_location 4294967297"},
		{
			"size and name of a dimension", withInput(onnxgen.Value{
				Name: "z",
				Extra: message().Nested(2, message().Nested(1,
					message().Int(1, 1).Nested(2, message().Nested(1, message().Int(1, 4).String(2, "n"))))),
			}), edgewise.Invalid,
			"beside one that excludes it",
		},
		{
			"two types of one value", withInput(onnxgen.Value{
				Name:  "z",
				Extra: message().Nested(2, message().Nested(1, message().Int(1, 1)).Nested(4, message())),
			}), edgewise.Invalid,
			"beside one that excludes it",
		},
		{
			"element type over 32 bits", withInitializer(onnxgen.Tensor{Name: "w", Type: 0, Extra: message().Int(2, 1<<32+1)}),
			edgewise.Invalid, "32 bits",
		},
		{"name that is not UTF-8", withNode(onnxgen.Node{Op: "Relu", Name: "a\xff"}), edgewise.Invalid, "UTF-8"},
		{"name with NUL", withInput(onnxgen.Value{Name: "a\x00b", Type: onnxgen.Float}), edgewise.Invalid, "NUL"},
		{"packed numbers cut off", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Int64, Dims: []int64{1},
			Extra: message().Bytes(7, []byte{0x80}),
		}), edgewise.Invalid, "int64_data"},
		{"packed floats cut off", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Float, Dims: []int64{1},
			Extra: message().Bytes(4, []byte{1, 2, 3}),
		}), edgewise.Invalid, "multiple of 4"},
		{
			"metadata of a node cut off", withNode(onnxgen.Node{Op: "Relu", Extra: message().Bytes(9, []byte{0x0a, 5})}),
			edgewise.Invalid, "5 bytes has 0 left",
		},
		{"metadata of a value cut off", withInput(onnxgen.Value{
			Name: "z", Type: onnxgen.Float,
			Extra: message().Bytes(4, []byte{0x0a, 5}),
		}), edgewise.Invalid, "5 bytes has 0 left"},
		{"metadata of a tensor cut off", withInitializer(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Float, Data: make([]byte, 4),
			Extra: message().Bytes(16, []byte{0x0a, 5}),
		}), edgewise.Invalid, "5 bytes has 0 left"},
		{"metadata of a graph cut off", scalarWith(func(m *onnxgen.Model) {
			m.Graph.Extra = message().Bytes(16,
				[]byte{0x0a, 5})
		}), edgewise.Invalid, "5 bytes has 0 left"},
		{"quantization annotation cut off", scalarWith(func(m *onnxgen.Model) {
			m.Graph.Extra = message().Nested(14,
				message().Bytes(2, []byte{0x0a, 5}))
		}), edgewise.Invalid, "5 bytes has 0 left"},
		{"fixed number cut off", message().Int(1, 8).Nested(7,
			message().Nested(1, message().Nested(5,
				message().Tag(2, 5).Raw(1, 2)))).Encoded(), edgewise.Invalid, "number of 4 bytes has 2 left"},
	})
}

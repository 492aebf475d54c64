package onnxfile

// shape is how a field stands in the file.
type shape uint8

const (
	absent  shape = iota // not a field of the message
	number               // a varint
	numbers              // repeated, packed or not
	real32               // a float
	reals32              // repeated, packed or not
	reals64              // repeated doubles, packed or not
	blob                 // a string, bytes or a message
	blobs                // repeated
)

// fieldSpec describes a field. Fields of a message with the same choice above 0 exclude each other.
type fieldSpec struct {
	name   string
	shape  shape
	choice uint8
}

// message lists the fields of a message by number. Numbers stay below 64.
type message struct {
	name   string
	strict bool // unknown fields are refused; used at the top, to tell what is not ONNX at all
	fields []fieldSpec
}

// check tells whether f is a field of m, and refuses one of the wrong wire type and a singular one that was seen
// before: protobuf would merge the two, and readers differ in how.
func (m *message) check(f field, seen *uint64) (known bool, err error) {
	if int(f.number) >= len(m.fields) || m.fields[f.number].shape == absent {
		if m.strict {
			return false, invalid("field %d is not one of a model: this is not an ONNX file", f.number)
		}
		return false, nil
	}
	spec := &m.fields[f.number]
	if !spec.shape.allows(f.wire) {
		return false, invalid("field %q has wire type %d, which it cannot have", spec.name, f.wire)
	}
	if spec.shape.repeated() {
		return true, nil
	}
	bit := uint64(1) << f.number
	if spec.choice != 0 {
		bit = 1 << (64 - spec.choice)
	}
	if *seen&bit != 0 {
		return false, invalid("field %q is given twice, or beside one that excludes it", spec.name)
	}
	*seen |= bit
	return true, nil
}

func (s shape) repeated() bool {
	return s == numbers || s == reals32 || s == reals64 || s == blobs
}

func (s shape) allows(wire uint8) bool {
	switch s {
	case number:
		return wire == wireVarint
	case numbers:
		return wire == wireVarint || wire == wireBytes
	case real32:
		return wire == wireFixed32
	case reals32:
		return wire == wireFixed32 || wire == wireBytes
	case reals64:
		return wire == wireFixed64 || wire == wireBytes
	case blob, blobs:
		return wire == wireBytes
	}
	return false
}

var modelMessage = message{"ModelProto", true, []fieldSpec{
	1: {"ir_version", number, 0}, 2: {"producer_name", blob, 0}, 3: {"producer_version", blob, 0}, 4: {"domain", blob, 0},
	5: {"model_version", number, 0}, 6: {"doc_string", blob, 0}, 7: {"graph", blob, 0}, 8: {"opset_import", blobs, 0},
	14: {"metadata_props", blobs, 0}, 20: {"training_info", blobs, 0}, 25: {"functions", blobs, 0},
	26: {"configuration", blobs, 0},
}}

var importMessage = message{"OperatorSetIdProto", false, []fieldSpec{
	1: {"domain", blob, 0}, 2: {"version", number, 0},
}}

var entryMessage = message{"StringStringEntryProto", false, []fieldSpec{
	1: {"key", blob, 0}, 2: {"value", blob, 0},
}}

var annotationMessage = message{"TensorAnnotation", false, []fieldSpec{
	1: {"tensor_name", blob, 0}, 2: {"quant_parameter_tensor_names", blobs, 0},
}}

var functionMessage = message{"FunctionProto", false, []fieldSpec{
	1: {"name", blob, 0}, 4: {"input", blobs, 0}, 5: {"output", blobs, 0}, 6: {"attribute", blobs, 0},
	7: {"node", blobs, 0}, 8: {"doc_string", blob, 0}, 9: {"opset_import", blobs, 0}, 10: {"domain", blob, 0},
	11: {"attribute_proto", blobs, 0}, 12: {"value_info", blobs, 0}, 13: {"overload", blob, 0},
	14: {"metadata_props", blobs, 0},
}}

var graphMessage = message{"GraphProto", false, []fieldSpec{
	1: {"node", blobs, 0}, 2: {"name", blob, 0}, 5: {"initializer", blobs, 0}, 10: {"doc_string", blob, 0},
	11: {"input", blobs, 0}, 12: {"output", blobs, 0}, 13: {"value_info", blobs, 0},
	14: {"quantization_annotation", blobs, 0}, 15: {"sparse_initializer", blobs, 0}, 16: {"metadata_props", blobs, 0},
}}

var nodeMessage = message{"NodeProto", false, []fieldSpec{
	1: {"input", blobs, 0}, 2: {"output", blobs, 0}, 3: {"name", blob, 0}, 4: {"op_type", blob, 0},
	5: {"attribute", blobs, 0}, 6: {"doc_string", blob, 0}, 7: {"domain", blob, 0}, 8: {"overload", blob, 0},
	9: {"metadata_props", blobs, 0}, 10: {"device_configurations", blobs, 0},
}}

var attributeMessage = message{"AttributeProto", false, []fieldSpec{
	1: {"name", blob, 0}, 2: {"f", real32, 0}, 3: {"i", number, 0}, 4: {"s", blob, 0}, 5: {"t", blob, 0}, 6: {
		"g", blob,
		0,
	},
	7: {"floats", reals32, 0}, 8: {"ints", numbers, 0}, 9: {"strings", blobs, 0}, 10: {"tensors", blobs, 0},
	11: {"graphs", blobs, 0}, 13: {"doc_string", blob, 0}, 14: {"tp", blob, 0}, 15: {"type_protos", blobs, 0},
	20: {"type", number, 0}, 21: {"ref_attr_name", blob, 0}, 22: {"sparse_tensor", blob, 0}, 23: {
		"sparse_tensors", blobs,
		0,
	},
}}

var tensorMessage = message{"TensorProto", false, []fieldSpec{
	1: {"dims", numbers, 0}, 2: {"data_type", number, 0}, 3: {"segment", blob, 0}, 4: {"float_data", reals32, 0},
	5: {"int32_data", numbers, 0}, 6: {"string_data", blobs, 0}, 7: {"int64_data", numbers, 0}, 8: {"name", blob, 0},
	9: {"raw_data", blob, 0}, 10: {"double_data", reals64, 0}, 11: {"uint64_data", numbers, 0}, 12: {
		"doc_string", blob,
		0,
	},
	13: {"external_data", blobs, 0}, 14: {"data_location", number, 0}, 16: {"metadata_props", blobs, 0},
}}

var sparseMessage = message{"SparseTensorProto", false, []fieldSpec{
	1: {"values", blob, 0}, 2: {"indices", blob, 0}, 3: {"dims", numbers, 0},
}}

var valueMessage = message{"ValueInfoProto", false, []fieldSpec{
	1: {"name", blob, 0}, 2: {"type", blob, 0}, 3: {"doc_string", blob, 0}, 4: {"metadata_props", blobs, 0},
}}

var typeMessage = message{"TypeProto", false, []fieldSpec{
	1: {"tensor_type", blob, 1}, 4: {"sequence_type", blob, 1}, 5: {"map_type", blob, 1}, 6: {"denotation", blob, 0},
	7: {"opaque_type", blob, 1}, 8: {"sparse_tensor_type", blob, 1}, 9: {"optional_type", blob, 1},
}}

var tensorTypeMessage = message{"TypeProto.Tensor", false, []fieldSpec{
	1: {"elem_type", number, 0}, 2: {"shape", blob, 0},
}}

var elementTypeMessage = message{"TypeProto.Sequence", false, []fieldSpec{
	1: {"elem_type", blob, 0},
}}

var mapTypeMessage = message{"TypeProto.Map", false, []fieldSpec{
	1: {"key_type", number, 0}, 2: {"value_type", blob, 0},
}}

var shapeMessage = message{"TensorShapeProto", false, []fieldSpec{
	1: {"dim", blobs, 0},
}}

var dimensionMessage = message{"TensorShapeProto.Dimension", false, []fieldSpec{
	1: {"dim_value", number, 1}, 2: {"dim_param", blob, 1}, 3: {"denotation", blob, 0},
}}

package kserve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// tightLimits makes every bound easy to cross.
var tightLimits = Limits{MaxJSON: 2000, MaxDecoded: 64, MaxTensors: 3, MaxDepth: 8, MaxName: 10, MaxParameters: 2}

// in wraps members into the one input of a request, which has a name, a shape [2] and the type given.
func in(datatype, members string) string {
	return `{"inputs":[{"name":"x","shape":[2],"datatype":"` + datatype + `",` + members + `}]}`
}

func data(datatype, elements string) string { return in(datatype, `"data":[`+elements+`]`) }

const (
	syntax  = "failed to parse the request JSON buffer: "
	onlyOne = "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', " +
		"'shared_memory_region' in 'parameters'. But"
	goodX   = `"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]`
	deepest = `[[[[[[[[[[1]]]]]]]]]]`
)

type badBody struct {
	name string
	body string // what follows binaryPart is the binary part; without one the header is absent
	text string
	kind edgewise.Kind // the zero value stands for Invalid
}

var badBodies = []badBody{
	// The text as such.
	{name: "empty", body: "", text: syntax + "The document is empty. at 0"},
	{name: "white space only", body: " \n", text: syntax + "The document is empty. at 2"},
	{name: "an array", body: `[]`, text: "the request is an array, want an object"},
	{name: "no JSON", body: `hello`, text: "the request is not JSON, want an object"},
	{name: "cut off", body: `{"inputs":[`, text: "Unable to parse 'inputs': input 0 is no value, want an object"},
	{name: "cut off in an object", body: `{`, text: syntax + "Missing a name for object member. at 1"},
	{name: "trailing bytes", body: `{` + goodX + `} x`, text: syntax + "The document root must not be followed by other " +
		"values. at 67"},
	{name: "NUL byte after the end", body: `{` + goodX + "}\x00", text: syntax + "The document root must not be " +
		"followed by other values. at 66"},
	{name: "name without quotes", body: `{inputs:[]}`, text: syntax + "Missing a name for object member. at 1"},
	{
		name: "comma after the last member", body: `{` + goodX + `,}`,
		text: syntax + "Missing a name for object member. at 66",
	},
	{name: "no colon", body: `{"inputs" []}`, text: syntax + "Missing a colon after a name of object member. at 10"},
	{
		name: "no comma between members", body: `{"a":1 "b":2}`,
		text: syntax + "Missing a comma or } after an object member. at 7",
	},
	{
		name: "no comma between elements", body: `{"a":[1 2]}`,
		text: syntax + "Missing a comma or ] after an array element. at 8",
	},
	{name: "comma after the last element", body: `{"a":[1,]}`, text: syntax + "Invalid value. at 8"},
	{name: "NaN in an unknown member", body: `{"a":NaN}`, text: syntax + "Invalid value. at 5"},
	{name: "Infinity in an unknown member", body: `{"a":-Infinity}`, text: syntax + "Invalid value. at 6"},
	{name: "word in capitals", body: `{"a":True}`, text: syntax + "Invalid value. at 5"},
	{name: "leading zero", body: `{"a":01}`, text: syntax + "Invalid value. at 6"},
	{name: "no fraction", body: `{"a":1.}`, text: syntax + "Miss fraction part in number. at 7"},
	{name: "no exponent", body: `{"a":1e}`, text: syntax + "Miss exponent in number. at 7"},
	{name: "no exponent after its sign", body: `{"a":1e-}`, text: syntax + "Miss exponent in number. at 8"},
	{name: "plus sign", body: `{"a":+1}`, text: syntax + "Invalid value. at 5"},
	{name: "point first", body: `{"a":.5}`, text: syntax + "Invalid value. at 5"},
	{name: "minus alone", body: `{"a":-}`, text: syntax + "Invalid value. at 6"},
	{name: "string without end", body: `{"a":"b`, text: syntax + "Missing a closing quotation mark in string. at 5"},
	{name: "string that ends in a backslash", body: `{"a":"b\`, text: syntax + "Missing a closing quotation mark in string. at 7"},
	{name: "control character in a string", body: "{\"a\":\"b\nc\"}", text: syntax + "Invalid encoding in string. at 7"},
	{name: "invalid UTF-8", body: "{\"a\":\"\xff\"}", text: syntax + "Invalid encoding in string. at 6"},
	{name: "overlong UTF-8", body: "{\"a\":\"\xc0\xaf\"}", text: syntax + "Invalid encoding in string. at 6"},
	{name: "UTF-8 surrogate", body: "{\"a\":\"\xed\xa0\x80\"}", text: syntax + "Invalid encoding in string. at 6"},
	{name: "unknown escape", body: `{"a":"\x41"}`, text: syntax + "Invalid escape character in string. at 6"},
	{name: "bad hex digit", body: `{"a":"\u00g0"}`, text: syntax + `Incorrect hex digit after \u escape in string. at 6`},
	{name: "high surrogate alone", body: `{"a":"\ud83d"}`, text: syntax + "The surrogate pair in string is invalid. at 6"},
	{
		name: "low surrogate first", body: `{"a":"\ude00\ud83d"}`,
		text: syntax + "The surrogate pair in string is invalid. at 6",
	},
	{
		name: "too deep in an unknown member", body: `{"a":[[[[[[[[1]]]]]]]]}`,
		text: "JSON nesting depth exceeds maximum allowed limit (8)", kind: edgewise.TooLarge,
	},
	{
		name: "too deep in data", body: data("FP32", deepest), text: "JSON nesting depth exceeds maximum allowed limit (8)",
		kind: edgewise.TooLarge,
	},
	{
		name: "JSON part too large", body: strings.Repeat(" ", 2001), text: "request JSON size of 2001 bytes exceeds the " +
			"maximum allowed input size of 2000 bytes. Use --http-max-input-size to increase the limit.",
		kind: edgewise.TooLarge,
	},

	// Members of the request.
	{name: "id is a number", body: `{"id":7,` + goodX + `}`, text: "Unable to parse 'id': want a string, got a number"},
	{name: "id is null", body: `{"id":null,` + goodX + `}`, text: "Unable to parse 'id': want a string, got null"},
	{name: "id too long", body: `{"id":"12345678901",` + goodX + `}`, text: "Unable to parse 'id': it has 11 bytes, at " +
		"most 10 are allowed", kind: edgewise.TooLarge},
	{name: "id twice", body: `{"id":"a","id":"b",` + goodX + `}`, text: "Unable to parse 'id': it is there twice"},
	{
		name: "id twice, once escaped", body: `{"id":"a","\u0069d":"b",` + goodX + `}`,
		text: "Unable to parse 'id': it is there twice",
	},
	{name: "no inputs", body: `{}`, text: "Unable to parse 'inputs': the request has none"},
	{name: "inputs is an object", body: `{"inputs":{}}`, text: "Unable to parse 'inputs': want an array, got an object"},
	{name: "inputs twice", body: `{` + goodX + `,` + goodX + `}`, text: "Unable to parse 'inputs': it is there twice"},
	{name: "an input is a number", body: `{"inputs":[1]}`, text: "Unable to parse 'inputs': input 0 is a number, want " +
		"an object"},
	{name: "outputs is null", body: `{` + goodX + `,"outputs":null}`, text: "Unable to parse 'outputs': want an array, " +
		"got null"},
	{
		name: "outputs twice", body: `{` + goodX + `,"outputs":[],"outputs":[]}`,
		text: "Unable to parse 'outputs': it is there twice",
	},
	{
		name: "an output is a string", body: `{` + goodX + `,"outputs":["y"]}`,
		text: "Unable to parse 'outputs': output 0 is a string, want an object",
	},
	{
		name: "parameters is an array", body: `{"parameters":[],` + goodX + `}`,
		text: "Unable to parse 'parameters': want an object, got an array",
	},
	{
		name: "parameters twice", body: `{"parameters":{},"parameters":{},` + goodX + `}`,
		text: "Unable to parse 'parameters': it is there twice",
	},
	{
		name: "more tensors than allowed", body: `{` + goodX + `,"outputs":[{"name":"a"},{"name":"b"},{"name":"c"}]}`,
		text: "the request has more than 3 inputs and outputs", kind: edgewise.TooLarge,
	},

	// Members of an input.
	{
		name: "no name", body: `{"inputs":[{"shape":[1],"datatype":"FP32","data":[1]}]}`,
		text: "Unable to parse 'name': input 0 has none",
	},
	{
		name: "empty name", body: `{"inputs":[{"name":"","shape":[1],"datatype":"FP32","data":[1]}]}`,
		text: "Unable to parse 'name': input 0 has none",
	},
	{
		name: "name is a number", body: `{"inputs":[{"name":1}]}`,
		text: "Unable to parse 'name': want a string, got a number",
	},
	{name: "name too long", body: `{"inputs":[{"name":"12345678901"}]}`, text: "Unable to parse 'name': it has 11 " +
		"bytes, at most 10 are allowed", kind: edgewise.TooLarge},
	{name: "name twice", body: `{"inputs":[{"name":"x","name":"x"}]}`, text: "Unable to parse 'name': it is there twice"},
	{
		name: "no shape", body: `{"inputs":[{"name":"x","datatype":"FP32","data":[1]}]}`,
		text: "Unable to parse 'shape': input 0 has none",
	},
	{
		name: "shape is a number", body: `{"inputs":[{"name":"x","shape":1}]}`,
		text: "Unable to parse 'shape': want an array, got a number",
	},
	{name: "shape twice", body: in("FP32", `"shape":[1],"data":[1]`), text: "Unable to parse 'shape': it is there twice"},
	{
		name: "negative dimension", body: `{"inputs":[{"name":"x","shape":[1,-1]}]}`,
		text: "Unable to parse 'shape': dimension 1 is not an integer from 0 to 9223372036854775807",
	},
	{
		name: "dimension with a fraction", body: `{"inputs":[{"name":"x","shape":[1.0]}]}`,
		text: "Unable to parse 'shape': dimension 0 is not an integer from 0 to 9223372036854775807",
	},
	{
		name: "dimension over 63 bits", body: `{"inputs":[{"name":"x","shape":[9223372036854775808]}]}`,
		text: "Unable to parse 'shape': dimension 0 is not an integer from 0 to 9223372036854775807",
	},
	{
		name: "dimension over 64 bits", body: `{"inputs":[{"name":"x","shape":[18446744073709551617]}]}`,
		text: "Unable to parse 'shape': dimension 0 is not an integer from 0 to 9223372036854775807",
	},
	{
		name: "dimension is a string", body: `{"inputs":[{"name":"x","shape":["1"]}]}`,
		text: "Unable to parse 'shape': dimension 0 is not an integer from 0 to 9223372036854775807",
	},
	{
		name: "too many dimensions", body: `{"inputs":[{"name":"x","shape":[` + strings.Repeat("1,", 32) + `1]}]}`,
		text: "Unable to parse 'shape': more than 32 dimensions",
	},
	{
		name: "element count overflows",
		body: `{"inputs":[{"name":"x","datatype":"INT8","shape":[4294967296,4294967296],"data":[1]}]}`,
		text: "invalid shape for input 'x': shape [4294967296,4294967296] causes total element count to exceed maximum " +
			"size of 9223372036854775807",
	},
	{
		name: "byte size overflows",
		body: `{"inputs":[{"name":"x","datatype":"FP64","shape":[2305843009213693952],"data":[1]}]}`,
		text: "byte size overflow for input 'x': element count (2305843009213693952) * data type size (8) exceeds maximum " +
			"allowed size (9223372036854775807)",
	},
	{
		name: "no datatype", body: `{"inputs":[{"name":"x","shape":[1],"data":[1]}]}`,
		text: "Unable to parse 'datatype': input 0 has none",
	},
	{
		name: "datatype is null", body: `{"inputs":[{"name":"x","datatype":null}]}`,
		text: "Unable to parse 'datatype': want a string, got null",
	},
	{name: "datatype twice", body: in("FP32", `"datatype":"FP32"`), text: "Unable to parse 'datatype': it is there twice"},
	{name: "unknown datatype", body: data("FP31", "1,2"), text: "Unable to parse 'datatype': FP31 is no datatype: " +
		"want one of " + Datatypes()},
	{name: "datatype of a configuration", body: data("TYPE_FP32", "1,2"), text: "Unable to parse 'datatype': TYPE_FP32 " +
		"is no datatype: " + "want one of " + Datatypes()},
	{name: "datatype INVALID", body: data("INVALID", "1,2"), text: "Unable to parse 'datatype': INVALID is no datatype: " +
		"want one of " + Datatypes()},
	{
		name: "input parameters is a string", body: in("FP32", `"parameters":"a"`),
		text: "Unable to parse 'parameters': want an object, got a string",
	},
	{
		name: "input twice",
		body: `{"inputs":[{"name":"x","shape":[0],"datatype":"FP32"},{"name":"x","shape":[0],"datatype":"FP32"}]}`,
		text: "input 'x' already exists in request",
	},

	// Where the bytes come from.
	{name: "no bytes", body: in("FP32", `"a":1`), text: onlyOne + " no field is set"},
	{
		name: "data and binary", body: in("FP32", `"data":[1,2],"parameters":{"binary_data_size":8}`),
		text: onlyOne + " set 'data' 'binary_data_size'",
	},
	{
		name: "all three", body: in("FP32", `"data":[1,2],"parameters":{"binary_data_size":8,"shared_memory_region":"r"}`),
		text: onlyOne + " set 'data' 'binary_data_size' 'shared_memory_region'",
	},
	{
		name: "shared memory without size", body: in("FP32", `"parameters":{"shared_memory_region":"r"}`),
		text: "Unable to parse 'shared_memory_byte_size': input 'x' has none",
	},
	{
		name: "shared memory without name", body: in("FP32",
			`"parameters":{"shared_memory_region":"","shared_memory_byte_size":8}`),
		text: "Unable to parse 'shared_memory_region': input 'x' names none",
	},
	{
		name: "shared memory of no string", body: in("FP32",
			`"parameters":{"shared_memory_region":7,"shared_memory_byte_size":8}`),
		text: "Unable to parse 'shared_memory_region': want a string, got a number",
	},
	{
		name: "shared memory size below 0", body: in("FP32",
			`"parameters":{"shared_memory_region":"r","shared_memory_byte_size":-8}`),
		text: "Unable to parse 'shared_memory_byte_size': want an unsigned 64-bit integer, got a number",
	},
	{
		name: "shared memory twice",
		body: in("FP32", `"parameters":{"shared_memory_region":"r","shared_memory_region":"s","shared_memory_byte_size":8}`),
		text: "Unable to parse 'shared_memory_region': it is there twice",
	},
	{
		name: "binary size is negative", body: in("FP32", `"parameters":{"binary_data_size":-8}`),
		text: "Unable to parse 'binary_data_size': want an unsigned 64-bit integer, got a number",
	},
	{
		name: "binary size is a string", body: in("FP32", `"parameters":{"binary_data_size":"8"}`),
		text: "Unable to parse 'binary_data_size': want an unsigned 64-bit integer, got a string",
	},
	{
		name: "binary size twice", body: in("FP32", `"parameters":{"binary_data_size":8,"binary_data_size":8}`),
		text: "Unable to parse 'binary_data_size': it is there twice",
	},
	{
		name: "binary without the header", body: in("FP32", `"parameters":{"binary_data_size":8}`),
		text: "must specify valid 'Infer-Header-Content-Length' in request header and 'binary_data_size' when passing " +
			"inputs in binary data format",
	},
	{
		name: "binary part too short", body: in("FP32", `"parameters":{"binary_data_size":8}`) + binaryPart + "12345",
		text: "unexpected size for input 'x', expecting 3 additional bytes for model 'm'",
	},
	{
		name: "binary part missing", body: in("FP32", `"parameters":{"binary_data_size":8}`) + binaryPart,
		text: "unexpected size for input 'x', expecting 8 additional bytes for model 'm'",
	},
	{
		name: "binary size over 64 bits", body: in("FP32", `"parameters":{"binary_data_size":18446744073709551615}`) +
			binaryPart + "12345",
		text: "unexpected size for input 'x', expecting 9223372036854775802 additional bytes for model 'm'",
	},
	{
		name: "binary part too long", body: in("FP32", `"parameters":{"binary_data_size":2}`) + binaryPart + "123",
		text: "unexpected additional input data for model 'm'",
	},
	{
		name: "binary part that nobody announced", body: `{` + goodX + `}` + binaryPart + "123",
		text: "unexpected additional input data for model 'm'",
	},

	// Elements.
	{name: "data is a number", body: in("FP32", `"data":1`), text: "Unable to parse 'data': want an array, got a number"},
	{name: "data twice", body: in("FP32", `"data":[1,2],"data":[1,2]`), text: "Unable to parse 'data': it is there twice"},
	{
		name: "too few elements", body: data("FP32", "1"),
		text: `Failed to parse 'data' field: shape does not match true shape: input "x": shape [2] takes 2 elements, data has 1`,
	},
	{
		name: "too many elements", body: data("FP32", "1,2,3"),
		text: `Unable to parse 'data': Shape does not match true shape of 'data' field: input "x": shape [2] takes 2 elements, data has 3`,
	},
	{
		name: "too many integers", body: data("INT8", "1,2,3"),
		text: `Unable to parse 'data': Shape does not match true shape of 'data' field: input "x": shape [2] takes 2 elements, data has 3`,
	},
	{
		name: "too many strings", body: data("BYTES", `"a","b","c"`),
		text: `Unable to parse 'data': Shape does not match true shape of 'data' field: input "x": shape [2] takes 2 elements, data has 3`,
	},
	{
		name: "no elements", body: data("FP32", ""),
		text: `Failed to parse 'data' field: shape does not match true shape: input "x": shape [2] takes 2 elements, data has 0`,
	},
	{
		name: "elements in empty arrays", body: data("FP32", "[],[1],[]"),
		text: `Failed to parse 'data' field: shape does not match true shape: input "x": shape [2] takes 2 elements, data has 1`,
	},
	{
		name: "a shape that the body cannot fill",
		body: `{"inputs":[{"name":"x","datatype":"FP32","shape":[1000000000],"data":[1,2,3]}]}`,
		text: `Failed to parse 'data' field: shape does not match true shape: input "x": shape [1000000000] takes ` +
			`1000000000 elements, data has 3`,
	},
	{
		name: "data for an empty shape", body: `{"inputs":[{"name":"x","datatype":"FP32","shape":[0,3],"data":[1]}]}`,
		text: `Unable to parse 'data': Shape does not match true shape of 'data' field: input "x": shape [0,3] takes 0 elements, data has 1`,
	},
	{
		name: "data before its shape, too few", body: `{"inputs":[{"data":[1],"name":"x","datatype":"FP32","shape":[2]}]}`,
		text: `Failed to parse 'data' field: shape does not match true shape: input "x": shape [2] takes 2 elements, data has 1`,
	},
	{
		name: "more memory than allowed",
		body: `{"inputs":[{"name":"x","datatype":"FP64","shape":[9],"data":[1,2,3,4,5,6,7,8,9]}]}`,
		text: "JSON input 'x' has a byte_size (72 bytes) that exceeds the maximum allowed value: the tensors of a request " +
			"sent as JSON may take 64 bytes", kind: edgewise.TooLarge,
	},
	{
		name: "more memory than allowed, together",
		body: `{"inputs":[{"name":"x","datatype":"FP64","shape":[5],"data":[1,2,3,4,5]},{"name":"y","datatype":"FP64",` +
			`"shape":[5],"data":[1,2,3,4,5]}]}`,
		text: "JSON input 'y' has a byte_size (40 bytes) that exceeds the maximum allowed value: the tensors of a request " +
			"sent as JSON may take 64 bytes", kind: edgewise.TooLarge,
	},
	{name: "string for a float", body: data("FP32", `1,"2"`), text: `input "x": element 1: want a number, got a string`},
	{name: "null for a float", body: data("FP64", `null`), text: `input "x": element 0: want a number, got null`},
	{name: "bool for a float", body: data("FP16", `true`), text: `input "x": element 0: want a number, got true`},
	{name: "object for a float", body: data("FP32", `{}`), text: `input "x": element 0: want a number, got an object`},
	{name: "leading zero in data", body: data("FP32", `1,02`), text: syntax + "Invalid value. at 64"},
	{name: "comma at the end of data", body: data("FP32", `1,2,`), text: syntax + "Invalid value. at 65"},
	{name: "comma at the start of data", body: data("FP32", `,1`), text: syntax + "Invalid value. at 61"},
	{name: "words that are almost numbers", body: data("FP32", `nan`), text: syntax + "Invalid value. at 61"},
	{name: "FP32 too large", body: data("FP32", `1,-1e39`), text: `input "x": element 1: -1e39 does not fit FP32`},
	{
		name: "FP32 half above the largest", body: data("FP32", `340282356779733661637539395458142568448`),
		text: `input "x": element 0: 340282356779733661637539395458142568448 does not fit FP32`,
	},
	{name: "FP64 too large", body: data("FP64", `1e309`), text: `input "x": element 0: 1e309 does not fit FP64`},
	{name: "FP16 too large", body: data("FP16", `65520`), text: `input "x": element 0: 65520 does not fit FP16`},
	{name: "BF16 too large", body: data("BF16", `3.4e38`), text: `input "x": element 0: 3.4e38 does not fit BF16`},
	{name: "NaN for an integer", body: data("INT8", `NaN`), text: syntax + "Invalid value. at 61"},
	{
		name: "fraction for an integer", body: data("INT32", `1.5`),
		text: `input "x": element 0: 1.5 is not an integer, INT32 takes integers only`,
	},
	{
		name: "exponent for an integer", body: data("INT32", `1e2`),
		text: `input "x": element 0: 1e2 is not an integer, INT32 takes integers only`,
	},
	{
		name: "bool for an integer", body: data("INT32", `1,false`),
		text: `input "x": element 1: want an integer, got false`,
	},
	{name: "UINT8 too large", body: data("UINT8", `255,300`), text: `input "x": element 1: 300 does not fit UINT8`},
	{name: "UINT8 negative", body: data("UINT8", `-1`), text: `input "x": element 0: -1 does not fit UINT8`},
	{name: "UINT16 too large", body: data("UINT16", `65536`), text: `input "x": element 0: 65536 does not fit UINT16`},
	{
		name: "UINT32 too large", body: data("UINT32", `4294967296`),
		text: `input "x": element 0: 4294967296 does not fit UINT32`,
	},
	{
		name: "UINT64 too large", body: data("UINT64", `18446744073709551616`),
		text: `input "x": element 0: 18446744073709551616 does not fit UINT64`,
	},
	{name: "INT8 too large", body: data("INT8", `128`), text: `input "x": element 0: 128 does not fit INT8`},
	{name: "INT8 too small", body: data("INT8", `-129`), text: `input "x": element 0: -129 does not fit INT8`},
	{name: "INT16 too small", body: data("INT16", `-32769`), text: `input "x": element 0: -32769 does not fit INT16`},
	{
		name: "INT32 too large", body: data("INT32", `2147483648`),
		text: `input "x": element 0: 2147483648 does not fit INT32`,
	},
	{
		name: "INT64 too large", body: data("INT64", `9223372036854775808`),
		text: `input "x": element 0: 9223372036854775808 does not fit INT64`,
	},
	{
		name: "INT64 too small", body: data("INT64", `-9223372036854775809`),
		text: `input "x": element 0: -9223372036854775809 does not fit INT64`,
	},
	{name: "a number longer than messages", body: data("INT64", strings.Repeat("9", 60)), text: `input "x": element 0: ` +
		strings.Repeat("9", 40) + `... does not fit INT64`},
	{name: "2 for a bool", body: data("BOOL", `true,2`), text: `input "x": element 1: attempt to access JSON ` +
		`non-boolean as boolean: want true, false, 0 or 1, got 2`},
	{name: "-1 for a bool", body: data("BOOL", `-1`), text: `input "x": element 0: attempt to access JSON non-boolean ` +
		`as boolean: want true, false, 0 or 1, got -1`},
	{
		name: "string for a bool", body: data("BOOL", `"true"`),
		text: `input "x": element 0: attempt to access JSON non-boolean as boolean: want true, false, 0 or 1, got a string`,
	},
	{
		name: "number for a string", body: data("BYTES", `"a",1`),
		text: `input "x": element 1: attempt to access JSON non-string as string: want a string, got 1`,
	},
	{
		name: "surrogate alone in a string", body: data("BYTES", `"a","\ud800"`),
		text: syntax + "The surrogate pair in string is invalid. at 67",
	},

	// Members of an output.
	{
		name: "output without a name", body: `{` + goodX + `,"outputs":[{}]}`,
		text: "Unable to parse 'name': output 0 has none",
	},
	{
		name: "output twice", body: `{` + goodX + `,"outputs":[{"name":"y"},{"name":"y"}]}`,
		text: "output 'y' already exists in request",
	},
	{
		name: "output parameters is null", body: `{` + goodX + `,"outputs":[{"name":"y","parameters":null}]}`,
		text: "Unable to parse 'parameters': want an object, got null",
	},
	{
		name: "binary_data is a number", body: `{` + goodX + `,"outputs":[{"name":"y","parameters":{"binary_data":1}}]}`,
		text: "Unable to parse 'binary_data': want true or false, got a number",
	},
	{
		name: "classification is negative", body: `{` + goodX +
			`,"outputs":[{"name":"y","parameters":{"classification":-1}}]}`,
		text: "Unable to parse 'classification': want an unsigned 64-bit integer, got a number",
	},
	{
		name: "shared memory for an output without size", body: `{` + goodX +
			`,"outputs":[{"name":"y","parameters":{"shared_memory_region":"r"}}]}`,
		text: "Unable to parse 'shared_memory_byte_size': output 'y' has none",
	},
	{
		name: "shared memory for classes", body: `{` + goodX +
			`,"outputs":[{"name":"y","parameters":{"classification":2,"shared_memory_region":"r","shared_memory_byte_size":8}}]}`,
		text: "shared memory can't be used with classification: output 'y'",
	},

	// Parameters of the request.
	{
		name: "sequence_id is a bool", body: `{"parameters":{"sequence_id":true},` + goodX + `}`,
		text: "Unable to parse 'sequence_id': want an unsigned integer or a string, got a bool",
	},
	{
		name: "sequence_id is negative", body: `{"parameters":{"sequence_id":-1},` + goodX + `}`,
		text: "Unable to parse 'sequence_id': want an unsigned integer or a string, got a number",
	},
	{
		name: "sequence_id twice", body: `{"parameters":{"sequence_id":1,"sequence_id":2},` + goodX + `}`,
		text: "Unable to parse 'sequence_id': it is there twice",
	},
	{
		name: "sequence_start is a number", body: `{"parameters":{"sequence_start":1},` + goodX + `}`,
		text: "Unable to parse 'sequence_start': want true or false, got a number",
	},
	{
		name: "sequence_end is a string", body: `{"parameters":{"sequence_end":"true"},` + goodX + `}`,
		text: "Unable to parse 'sequence_end': want true or false, got a string",
	},
	{
		name: "priority is negative", body: `{"parameters":{"priority":-1},` + goodX + `}`,
		text: "Unable to parse 'priority': want an unsigned 64-bit integer, got a number",
	},
	{
		name: "timeout has a fraction", body: `{"parameters":{"timeout":1.5},` + goodX + `}`,
		text: "Unable to parse 'timeout': want an unsigned 64-bit integer, got a number",
	},
	{
		name: "binary_data_output is null", body: `{"parameters":{"binary_data_output":null},` + goodX + `}`,
		text: "Unable to parse 'binary_data_output': want true or false, got null",
	},
	{
		name: "reserved parameter", body: `{"parameters":{"triton_x":1},` + goodX + `}`,
		text: "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
	},
	{
		name: "custom parameter is null", body: `{"parameters":{"a":null},` + goodX + `}`,
		text: `parameter "a": want a string, a number or a bool, got null`,
	},
	{
		name: "custom parameter is an object", body: `{"parameters":{"a":{}},` + goodX + `}`,
		text: `parameter "a": want a string, a number or a bool, got an object`,
	},
	{
		name: "custom parameter too large", body: `{"parameters":{"a":1e999},` + goodX + `}`,
		text: `parameter "a": 1e999 does not fit a 64-bit float`,
	},
	{
		name: "custom parameter twice", body: `{"parameters":{"a":1,"a":2},` + goodX + `}`,
		text: `parameter "a" is there twice`,
	},
	{
		name: "custom parameter with a long name", body: `{"parameters":{"12345678901":1},` + goodX + `}`,
		text: "the name of a parameter has 11 bytes, at most 10 are allowed", kind: edgewise.TooLarge,
	},
	{
		name: "more custom parameters than allowed", body: `{"parameters":{"a":1,"b":1,"c":1},` + goodX + `}`,
		text: "the request has more than 2 custom parameters", kind: edgewise.TooLarge,
	},
}

func TestBadBodiesAreRefusedWithTheReason(t *testing.T) {
	d := NewDecoder(tightLimits)
	id := edgewise.ModelID{Name: "m", Version: 2}
	for _, test := range badBodies {
		t.Run(test.name, func(t *testing.T) {
			text, rest, split := strings.Cut(test.body, binaryPart)
			size := -1
			if split {
				size = len(text)
			}
			r, err := d.Infer(id, []byte(text+rest), size)
			if err == nil {
				t.Fatalf("accepted as %+v", r.Request)
			}
			kind := test.kind
			if kind == edgewise.Internal {
				kind = edgewise.Invalid
			}
			if err.Error() != test.text || edgewise.KindOf(err) != kind {
				t.Errorf("got  %v: %v\nwant %v: %s", edgewise.KindOf(err), err, kind, test.text)
			}
			var e *edgewise.Error
			if !errors.As(err, &e) || e.Model != id {
				t.Errorf("the error is about model %v, want %v", e.Model, id)
			}
		})
	}
}

// TestNestedDataIsBoundByTheDocument nests the elements as deep as the whole document may be, and one deeper: three
// levels are around "data".
func TestNestedDataIsBoundByTheDocument(t *testing.T) {
	for depth, want := range map[int]string{1: "", 33: "", 97: "", 98: "JSON nesting depth exceeds maximum allowed " +
		"limit (100)"} {
		for typ, element := range map[string]string{"INT8": "1", "FP32": "1.5", "BYTES": `"a"`} {
			body := `{"inputs":[{"name":"x","shape":[1],"datatype":"` + typ + `","data":` + strings.Repeat("[", depth) +
				element + strings.Repeat("]", depth) + `}]}`
			_, err := NewDecoder(Limits{}).Infer(edgewise.ModelID{Name: "m"}, []byte(body), -1)
			if (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("%s, %d deep: got %v, want %s", typ, depth, err, want)
			}
		}
	}
}

func TestErrorsAboutATensorNameItInTheBody(t *testing.T) {
	_, err := NewDecoder(Limits{}).Infer(edgewise.ModelID{Name: "m", Version: 2}, []byte(data("UINT8", "1,300")), -1)
	want := ErrorBody{
		Error: `input "x": element 1: 300 does not fit UINT8`, Code: "invalid", Model: "m", Version: 2,
		Input: "x",
	}
	if got := NewErrorBody(err); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHeaderLengthIsChecked(t *testing.T) {
	tests := []struct{ value, text string }{
		{"", "Unable to parse Inference-Header-Content-Length, got: "},
		{"x", "Unable to parse Inference-Header-Content-Length, got: x"},
		{"1 ", `Unable to parse Inference-Header-Content-Length, got: "1 "`},
		{"0x10", "Unable to parse Inference-Header-Content-Length, got: 0x10"},
		{"99999999999", "Unable to parse Inference-Header-Content-Length, value is out of range [ -2147483648, 2147483647 " +
			"], got: 99999999999"},
		{"-1", "inference header size should be in range (0, 20), got: -1"},
		{"21", "inference header size should be in range (0, 20), got: 21"},
	}
	for _, test := range tests {
		if _, err := ParseHeaderLength(test.value, 20); err == nil || err.Error() != test.text ||
			edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%q: got %v, want %s", test.value, err, test.text)
		}
	}
	for value, want := range map[string]int{"0": 0, "20": 20, "7": 7} {
		if got, err := ParseHeaderLength(value, 20); err != nil || got != want {
			t.Errorf("%q: got %d, %v", value, got, err)
		}
	}
	if _, err := NewDecoder(Limits{}).Infer(edgewise.ModelID{Name: "m"}, []byte("{}"),
		3); fmt.Sprint(err) != "inference header size should be in range (0, 2), got: 3" {
		t.Errorf("Infer with a length over the body: %v", err)
	}
}

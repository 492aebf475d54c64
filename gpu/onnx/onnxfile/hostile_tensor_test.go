package onnxfile_test

import (
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func TestReadRefusesTensors(t *testing.T) {
	w := func(t onnxgen.Type, dims []int64, data int) onnxgen.Tensor {
		return onnxgen.Tensor{Name: "w", Type: t, Dims: dims, Data: make([]byte, data)}
	}
	extra := func(t onnxgen.Tensor, m *onnxgen.Message) onnxgen.Tensor { t.Extra = m; return t }
	checkAll(t, []refusal{
		{
			"too few bytes", withInitializer(w(onnxgen.Float, []int64{4}, 12)), edgewise.Invalid,
			`tensor "w": raw_data has 12 bytes, but tensor(float)[4] takes 16`,
		},
		{"too many bytes", withInitializer(w(onnxgen.Float, []int64{4}, 20)), edgewise.Invalid, "takes 16"},
		{
			"no data", withInitializer(onnxgen.Tensor{Name: "w", Type: onnxgen.Float, Dims: []int64{4}}), edgewise.Invalid,
			"float_data has 0 entries",
		},
		{
			"two gigabytes announced, none there",
			withInitializer(onnxgen.Tensor{
				Name: "w", Type: onnxgen.Float,
				Dims: []int64{1 << 29},
			}), edgewise.Invalid, "takes 536870912",
		},
		{"half a byte too many", withInitializer(w(onnxgen.Int4, []int64{3}, 3)), edgewise.Invalid, "takes 2"},
		{
			"negative dimension", withInitializer(w(onnxgen.Float, []int64{-1}, 4)), edgewise.Invalid,
			"dimension 0 is negative: -1",
		},
		{
			"negative packed dimension", withInitializer(extra(w(onnxgen.Float, nil, 4), message().Packed(1, 2, -3))),
			edgewise.Invalid, "dimension 1 is negative: -3",
		},
		{
			"elements beyond counting", withInitializer(w(onnxgen.Float, []int64{math.MaxInt64, 2}, 4)), edgewise.Invalid,
			"more elements than can be counted",
		},
		{
			"bytes beyond counting", withInitializer(w(onnxgen.Double, []int64{math.MaxInt64 / 8}, 8)), edgewise.Invalid,
			"more elements than can be counted",
		},
		{
			"elements that wrap to zero", withInitializer(w(onnxgen.Float, []int64{1 << 32, 1 << 32}, 0)), edgewise.Invalid,
			"more elements than can be counted",
		},
		{"no element type", withInitializer(w(0, nil, 4)), edgewise.Invalid, "no element type"},
		{"element type of no meaning", withInitializer(w(77, nil, 4)), edgewise.Invalid, "element type 77"},
		{"no name", withInitializer(onnxgen.Floats("", nil, 1)), edgewise.Invalid, "initializer 1 has no name"},
		{
			"name used twice", withInitializer(onnxgen.Floats("two", nil, 1)), edgewise.Invalid,
			`two initializers are named "two"`,
		},
		{
			"segment", withInitializer(extra(w(onnxgen.Float, nil, 4), message().Nested(3, message()))), edgewise.Unsupported,
			"segments",
		},
		{
			"data twice", withInitializer(extra(w(onnxgen.Float, nil, 4), message().Float(4, 1))), edgewise.Invalid,
			"given twice",
		},
		{"data in another type's field", withInitializer(extra(onnxgen.Tensor{Name: "w", Type: onnxgen.Float},
			message().Int(7, 1))), edgewise.Invalid, "int64_data is given"},
		{"strings as raw bytes", withInitializer(w(onnxgen.String, []int64{1}, 4)), edgewise.Invalid, "stand in string_data"},
		{"strings missing", withInitializer(extra(onnxgen.Tensor{Name: "w", Type: onnxgen.String, Dims: []int64{2}},
			message().String(6, "a"))), edgewise.Invalid, "string_data has 1 entries"},
		{"numbers missing in packed data", withInitializer(extra(onnxgen.Tensor{
			Name: "w", Type: onnxgen.Int64,
			Dims: []int64{3},
		}, message().Packed(7, 1, 300))), edgewise.Invalid, "int64_data has 2 entries"},
		{
			"bad tensor in an attribute", withAttribute(onnxgen.TensorAttribute("value", w(onnxgen.Float, []int64{4}, 12))),
			edgewise.Invalid, `node 1 "c" (ai.onnx.Constant): attribute "value"`,
		},
		{
			"bad tensor in a subgraph", withAttribute(onnxgen.GraphAttribute("then",
				onnxgen.Graph{Name: "sub", Initializers: []onnxgen.Tensor{w(onnxgen.Float, []int64{4}, 12)}})), edgewise.Invalid,
			`graph "sub": tensor "w"`,
		},
	})
}

func withSparse(m *onnxgen.Message) []byte {
	return scalarWith(func(model *onnxgen.Model) { model.Graph.Extra = message().Nested(15, m) })
}

func TestReadRefusesSparseTensors(t *testing.T) {
	values := onnxgen.Floats("s", []int64{2}, 1, 2)
	indices := onnxgen.Ints64("", []int64{2}, 0, 3)
	outside := values.In("weights.bin", 0)
	sparseAttribute := func(field int, m *onnxgen.Message) onnxgen.Attribute {
		return onnxgen.Attribute{Name: "sparse_value", Type: 11, Value: message().Nested(field, m)}
	}
	checkAll(t, []refusal{
		{
			"values in another file", withSparse(onnxgen.Sparse(outside, indices, 4)), edgewise.Unsupported,
			"not allowed in a sparse initializer",
		},
		{
			"indices in another file", withSparse(onnxgen.Sparse(values, indices.In("weights.bin", 0), 4)), edgewise.Unsupported,
			"not allowed in a sparse initializer",
		},
		{
			"attribute with values in another file", withAttribute(sparseAttribute(22, onnxgen.Sparse(outside, indices, 4))),
			edgewise.Unsupported, "not allowed in a sparse tensor attribute",
		},
		{
			"attribute list with values in another file",
			withAttribute(sparseAttribute(23, onnxgen.Sparse(outside, indices, 4))), edgewise.Unsupported,
			"not allowed in a sparse tensor attribute",
		},
		{"no indices", withSparse(message().Nested(1, values.Message()).Int(3, 4)), edgewise.Invalid, "missing"},
		{
			"indices of floats", withSparse(onnxgen.Sparse(values, onnxgen.Floats("", []int64{2}, 0, 3), 4)), edgewise.Invalid,
			"want tensor(int64)",
		},
		{
			"more values than places", withSparse(onnxgen.Sparse(values, indices, 1)), edgewise.Invalid,
			"2 values do not fit in dimensions [1]",
		},
		{
			"other number of indices", withSparse(onnxgen.Sparse(values, onnxgen.Ints64("", []int64{3}, 0, 1, 2), 4)),
			edgewise.Invalid, "2 values have 3 indices",
		},
		{"strings", withSparse(onnxgen.Sparse(onnxgen.Tensor{Name: "s", Type: onnxgen.String, Dims: []int64{0}},
			onnxgen.Ints64("", []int64{0}), 4)), edgewise.Unsupported, "sparse tensor(string)"},
		{
			"a petabyte once filled", withSparse(onnxgen.Sparse(values, indices, 1<<48)), edgewise.TooLarge,
			"1073741824 bytes of sparse tensors",
		},
		{
			"elements beyond counting", withSparse(onnxgen.Sparse(values, indices, 1<<40, 1<<40)), edgewise.Invalid,
			"do not fit in dimensions",
		},
		{
			"no name", withSparse(onnxgen.Sparse(onnxgen.Floats("", []int64{2}, 1, 2), indices, 4)), edgewise.Invalid,
			"has no name",
		},
	})
}

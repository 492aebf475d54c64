package onnxfile_test

import (
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

func TestReadRefusesModels(t *testing.T) {
	opset := func(domain string, version int64) []byte {
		return scalarWith(func(m *onnxgen.Model) {
			m.Opsets = append([]onnxgen.Opset{{Version: 13}}, onnxgen.Opset{Domain: domain, Version: version})
		})
	}
	ir := func(version int64) []byte { return scalarWith(func(m *onnxgen.Model) { m.IR = version }) }
	graph := onnxgen.Scalar().Graph
	one := onnxgen.Opset{Version: 13}
	checkAll(t, []refusal{
		{"no ir_version", message().Nested(7, graph.Message()).Encoded(), edgewise.Invalid, "ir_version is missing"},
		{"negative ir_version", ir(-1), edgewise.Invalid, "ir_version is -1"},
		{"newer ir_version", ir(14), edgewise.Unsupported, "ir_version 14 is newer"},
		{"no graph", message().Int(1, 8).Encoded(), edgewise.Invalid, "graph is missing"},
		{
			"no opset_import", message().Int(1, 8).Nested(7, graph.Message()).Encoded(), edgewise.Invalid,
			"opset_import is missing",
		},
		{
			"newer opset", scalarWith(func(m *onnxgen.Model) { m.Opsets = []onnxgen.Opset{{Version: 27}} }),
			edgewise.Unsupported, `"ai.onnx" version 27 is newer`,
		},
		{"newer opset of ai.onnx.ml", opset("ai.onnx.ml", 6), edgewise.Unsupported, `"ai.onnx.ml" version 6 is newer`},
		{
			"newer opset of com.microsoft", opset("com.microsoft", 2), edgewise.Unsupported,
			`"com.microsoft" version 2 is newer`,
		},
		{
			"opset 0", scalarWith(func(m *onnxgen.Model) { m.Opsets = []onnxgen.Opset{{Version: 0}} }), edgewise.Invalid,
			"version 0",
		},
		{
			"opset below 0", scalarWith(func(m *onnxgen.Model) { m.Opsets = []onnxgen.Opset{{Version: math.MinInt64}} }),
			edgewise.Invalid, "want 1 or more",
		},
		{"one domain with two opsets", opset("ai.onnx", 12), edgewise.Invalid, "imported twice, as version 13 and 12"},
		{
			"training information", scalarWith(func(m *onnxgen.Model) { m.Extra = message().Nested(20, message()) }),
			edgewise.Unsupported, "training information",
		},
		{
			"configuration of devices", scalarWith(func(m *onnxgen.Model) { m.Extra = message().Nested(26, message()) }),
			edgewise.Unsupported, "several devices",
		},
		{
			"node on several devices", withNode(onnxgen.Node{Op: "Relu", Extra: message().Nested(10, message())}),
			edgewise.Unsupported, "several devices",
		},
		{"no outputs", scalarWith(func(m *onnxgen.Model) { m.Graph.Outputs = nil }), edgewise.Invalid, "no outputs"},
		{"no operator", withNode(onnxgen.Node{Name: "n"}), edgewise.Invalid, `"n" (ai.onnx.): it has no operator`},
		{
			"EPContext", withNode(onnxgen.Node{Name: "n", Op: "EPContext", Domain: "com.microsoft"}), edgewise.Unsupported,
			`"n" (com.microsoft.EPContext)`,
		},
		{
			"training operator", withNode(onnxgen.Node{Name: "n", Op: "Gradient", Domain: "ai.onnx.preview.training"}),
			edgewise.Unsupported, "for training",
		},
		{
			"foreign domain", withNode(onnxgen.Node{Name: "n", Op: "Evil", Domain: "acme.ops"}), edgewise.Unsupported,
			`node "n": operator acme.ops.Evil: domain "acme.ops" is not served`,
		},
		{
			"look-alike domain", withNode(onnxgen.Node{Name: "n", Op: "Relu", Domain: "ai.оnnx"}), edgewise.Unsupported,
			"is not served",
		},
		{"foreign domain in a subgraph", withAttribute(onnxgen.GraphAttribute("body",
			onnxgen.Graph{Nodes: []onnxgen.Node{{
				Name: "inner", Op: "Evil",
				Domain: "acme",
			}}})), edgewise.Unsupported, `node "inner"`},
		{"foreign domain in a function", scalarWith(func(m *onnxgen.Model) {
			m.Functions = []onnxgen.Function{{
				Domain: "f", Name: "F",
				Nodes: []onnxgen.Node{{Name: "inner", Op: "Evil", Domain: "acme"}},
			}}
		}), edgewise.Unsupported, `node "inner"`},
		{"function that calls itself", scalarWith(func(m *onnxgen.Model) {
			m.Functions = []onnxgen.Function{{Domain: "f", Name: "F", Nodes: []onnxgen.Node{{Op: "F", Domain: "f"}}}}
		}), edgewise.Invalid, "f.F calls itself"},
		{"functions that call each other", scalarWith(func(m *onnxgen.Model) {
			m.Functions = []onnxgen.Function{
				{Domain: "f", Name: "F", Nodes: []onnxgen.Node{{Op: "G", Domain: "f"}}},
				{Domain: "f", Name: "G", Nodes: []onnxgen.Node{{Op: "F", Domain: "f"}}},
			}
		}), edgewise.Invalid, "calls itself"},
		{"function defined twice", scalarWith(func(m *onnxgen.Model) {
			m.Functions = []onnxgen.Function{{Domain: "f", Name: "F"}, {Domain: "f", Name: "F"}}
		}), edgewise.Invalid, "function f.F: it is defined twice"},
		{
			"function without a name", scalarWith(func(m *onnxgen.Model) { m.Functions = []onnxgen.Function{{Domain: "f"}} }),
			edgewise.Invalid, "no name",
		},
		{"newer opset in a function", message().Int(1, 8).Nested(25,
			message().String(1, "F").Nested(9, message().Int(2, 99))).Encoded(), edgewise.Unsupported, "version 99 is newer"},
		{
			"only imports", message().Int(1, 8).Nested(8, message().Int(2, one.Version)).Encoded(), edgewise.Invalid,
			"graph is missing",
		},
	})
}

func TestReadRefusesSignatures(t *testing.T) {
	typed := func(t *onnxgen.Message) onnxgen.Value {
		return onnxgen.Value{Name: "z", Extra: message().Nested(2, t)}
	}
	tensorType := message().Nested(1, message().Int(1, 1))
	checkAll(t, []refusal{
		{"input without a name", withInput(onnxgen.Value{Type: onnxgen.Float}), edgewise.Invalid, "an input has no name"},
		{"input without a type", withInput(onnxgen.Value{Name: "z"}), edgewise.Invalid, `input "z" has no tensor type`},
		{
			"input without an element type", withInput(typed(message().Nested(1, message()))), edgewise.Invalid,
			`input "z" has no tensor type`,
		},
		{
			"two inputs of one name", withInput(onnxgen.Value{Name: "x", Type: onnxgen.Float}), edgewise.Invalid,
			`two inputs are named "x"`,
		},
		{"two outputs of one name", scalarWith(func(m *onnxgen.Model) {
			m.Graph.Outputs = append(m.Graph.Outputs,
				m.Graph.Outputs[0])
		}), edgewise.Invalid, `two outputs are named "y"`},
		{
			"sequence", withInput(typed(message().Nested(4, message().Nested(1, tensorType)))), edgewise.Unsupported,
			`input "z" is a sequence`,
		},
		{
			"map", withInput(typed(message().Nested(5, message().Int(1, 7).Nested(2, tensorType)))), edgewise.Unsupported,
			`input "z" is a map`,
		},
		{
			"optional", withInput(typed(message().Nested(9, message().Nested(1, tensorType)))), edgewise.Unsupported,
			`input "z" is an optional`,
		},
		{
			"sparse tensor", withInput(typed(message().Nested(8, message().Int(1, 1)))), edgewise.Unsupported,
			`input "z" is a sparse tensor`,
		},
		{"opaque", withInput(typed(message().Nested(7, message()))), edgewise.Unsupported, `input "z" is an opaque`},
		{
			"complex", withInput(onnxgen.Value{Name: "z", Type: onnxgen.Complex}), edgewise.Unsupported,
			`input "z" is a tensor(complex64)`,
		},
		{"float8", withInput(onnxgen.Value{Name: "z", Type: onnxgen.Float8}), edgewise.Unsupported, "tensor(float8e4m3fn)"},
		{
			"int4 output", scalarWith(func(m *onnxgen.Model) { m.Graph.Outputs[0].Type = onnxgen.Int4 }), edgewise.Unsupported,
			`output "y" is a tensor(int4)`,
		},
		{"element type of no meaning", withInput(onnxgen.Value{Name: "z", Type: 99}), edgewise.Invalid, "element type 99"},
		{"negative element type", withInput(onnxgen.Value{Name: "z", Type: -1}), edgewise.Invalid, "element type -1"},
		{"negative size", withInput(typed(message().Nested(1,
			message().Int(1, 1).Nested(2, message().Nested(1, message().Int(1, -2)))))), edgewise.Invalid, "size -2"},
		{"shape beyond counting", withInput(onnxgen.Value{
			Name: "z", Type: onnxgen.Float,
			Dims: onnxgen.Dims(math.MaxInt64, 2),
		}), edgewise.Invalid, "more elements than can be counted"},
	})
}

package work

import (
	"slices"
	"strings"
)

// rule gives the outputs of a node their shapes, counts its operations, and tells whether it could.
type rule func(c *call) bool

// views are operators that compute nothing and mostly move nothing.
var views = map[string]bool{
	"Reshape": true, "Flatten": true, "Squeeze": true, "Unsqueeze": true, "Identity": true, "Shape": true, "Size": true,
	"Constant": true, "ConstantOfShape": true, "Dropout": true,
}

// rules returns the rule of each operator that has one of its own.
func rules() map[string]rule {
	return map[string]rule{
		"Conv": conv, "FusedConv": conv, "ConvInteger": integers(conv), "QLinearConv": integers(linearConv), "ConvTranspose": transposed,
		"MatMul": matMul, "FusedMatMul": matMul, "MatMulInteger": integers(matMul), "QLinearMatMul": integers(linearMatMul),
		"DynamicQuantizeMatMul": integers(matMul), "MatMulIntegerToFloat": integers(matMul),
		"Gemm": gemm, "FusedGemm": gemm, "LSTM": recurrent(4), "GRU": recurrent(3), "RNN": recurrent(1), "Einsum": einsum,
		"Attention": attention, "MultiHeadAttention": multiHeadAttention,

		"MaxPool": pool, "AveragePool": pool, "LpPool": pool, "QLinearAveragePool": pool,
		"GlobalAveragePool": globalPool, "GlobalMaxPool": globalPool, "QLinearGlobalAveragePool": globalPool,
		"ArgMax": argument, "ArgMin": argument, "If": condition,

		"Shape": shape, "Size": size, "Gather": gather, "Slice": slice, "Concat": concat, "Split": split, "Reshape": reshape,
		"Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Transpose": transpose, "Expand": expand, "Tile": tile,
		"Pad": pad, "Resize": resize, "Upsample": resize, "Constant": constant, "ConstantOfShape": constantOfShape, "Range": span,
		"DepthToSpace": depthToSpace, "SpaceToDepth": spaceToDepth, "GatherElements": like(1, 0), "TopK": topK,
		"Identity": same, "Dropout": same, "Cast": cast, "ScatterND": like(0, 0), "ScatterElements": like(0, 0),

		"BatchNormalization": like(0, 2), "LayerNormalization": like(0, 8), "SkipLayerNormalization": like(0, 9),
		"SimplifiedLayerNormalization": like(0, 5), "InstanceNormalization": like(0, 8), "GroupNormalization": like(0, 8),
		"LRN": like(0, 8), "Softmax": like(0, 4), "LogSoftmax": like(0, 5), "LpNormalization": like(0, 3),
	}
}

// elementwise are operators that make each element of one element of each input.
var elementwise = []string{
	"Abs", "Acos", "Acosh", "And", "Asin", "Asinh", "Atan", "Atanh", "BiasGelu", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
	"Ceil", "Celu", "Clip", "Cos", "Cosh", "CumSum", "DequantizeLinear", "Div", "Elu", "Equal", "Erf", "Exp", "FastGelu", "Floor", "Gelu",
	"Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean",
	"Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid",
	"QuantizeLinear", "QuickGelu", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
	"Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor", "Add", "Trilu", "Hardmax", "DynamicQuantizeLinear",
}

// ruleOf is the rule of an operator; nil when its work is not known.
func (e *evaluation) ruleOf(op string) rule {
	switch own := e.rules[op]; {
	case own != nil:
		return own
	case slices.Contains(elementwise, op):
		return broadcasted
	case strings.HasPrefix(op, "Reduce"):
		return reduced
	}
	return nil
}

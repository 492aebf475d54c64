package onnxfile

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// What the pinned runtime accepts. Source: measured on ONNX Runtime 1.29.0, which answers "max supported IR version:
// 13" and "official support ... is till opset 26" (5 for ai.onnx.ml, 1 for com.microsoft); the same as ONNX 1.21.
const (
	MaxIRVersion       = 13
	MaxOpset           = 26 // domain ai.onnx
	MaxOpsetML         = 5  // domain ai.onnx.ml
	MaxOpsetMicrosoft  = 1  // domain com.microsoft
	firstOverridableIR = 4  // from this IR version on, an initializer is the default of the input of its name
)

// Limits bounds what Read accepts. A file at a limit is read, a file above it is refused with TooLarge and the limit's
// name. Every field must be set; start from DefaultLimits.
type Limits struct {
	File         int64 // bytes of the file; protobuf itself ends at 2 GiB
	Fields       int64 // wire fields in the whole file; bounds the time of a read
	Depth        int   // subgraphs inside subgraphs (If, Loop, Scan), and types inside types
	CallDepth    int   // functions calling functions
	Nodes        int   // nodes, those of subgraphs and functions included
	Expanded     int64 // nodes after every call of a function is replaced by the function's body
	Tensors      int   // initializers and tensors in attributes
	Attributes   int   // attributes of all nodes
	ValueInfos   int   // declared values, inputs and outputs of all graphs
	Signature    int   // inputs of the model, and outputs of the model
	Functions    int   // functions of the model
	Imports      int   // operator sets imported by the model, and by a function
	Metadata     int   // metadata entries of the model
	Rank         int   // dimensions of a tensor; at most edgewise.MaxRank makes sense
	Name         int   // bytes of a name: tensor, node, operator, domain, dimension
	Text         int   // bytes of a metadata value
	Kept         int64 // bytes of all names and metadata kept, each with KeptOverhead on top
	Weights      int64 // bytes of all tensors, external data included
	Dense        int64 // bytes of all sparse tensors once the runtime has filled them
	ExternalData int   // tensors stored in other files
	// Values is up to how many numbers of an attribute or of a tensor are kept; 0: none, and no attributes of nodes.
	Values int
}

// KeptOverhead is added to the length of each kept string when it is counted against Limits.Kept.
const KeptOverhead = 32

// DefaultLimits returns the limits of the box. A file that reaches all of them is still read within seconds.
func DefaultLimits() Limits {
	return Limits{
		File:         1<<31 - 1,
		Fields:       20_000_000,
		Depth:        16,
		CallDepth:    64,
		Nodes:        200_000,
		Expanded:     1_000_000,
		Tensors:      200_000,
		Attributes:   1_000_000,
		ValueInfos:   500_000,
		Signature:    1024,
		Functions:    10_000,
		Imports:      64,
		Metadata:     1024,
		Rank:         edgewise.MaxRank,
		Name:         4096,
		Text:         1 << 20,
		Kept:         128 << 20,
		Weights:      64 << 30,
		Dense:        1 << 30,
		ExternalData: 100_000,
	}
}

// tally counts what has been seen of one file against its limits.
type tally struct {
	Limits
	fields, kept, weights, dense                          int64
	nodes, tensors, attributes, valueInfos, externalTotal int
}

// count adds one to a counter and refuses to go over its limit.
func count(counter *int, limit int, what string) error {
	if *counter >= limit {
		return tooLarge("more than %d %s", limit, what)
	}
	*counter++
	return nil
}

// add adds n to a sum and refuses to go over its limit.
func add(sum *int64, n, limit int64, what string) error {
	if n > limit-*sum {
		return tooLarge("more than %d %s", limit, what)
	}
	*sum += n
	return nil
}

const operation = "onnxfile.Read"

func invalid(format string, args ...any) error {
	return edgewise.Errorf(operation, edgewise.Invalid, format, args...)
}

func tooLarge(format string, args ...any) error {
	return edgewise.Errorf(operation, edgewise.TooLarge, format, args...)
}

func unsupported(format string, args ...any) error {
	return edgewise.Errorf(operation, edgewise.Unsupported, format, args...)
}

// within says in which thing an error lies. The kind stays; nil stays nil.
func within(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return edgewise.Errorf(operation, edgewise.KindOf(err), "%s: %w", fmt.Sprintf(format, args...), err)
}

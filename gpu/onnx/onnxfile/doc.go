// Package onnxfile reads what an ONNX file says of itself, in pure Go and within bounds, so that nothing reaches the
// native runtime that was not looked at first.
//
// It walks the protobuf wire format of a ModelProto. A length is never trusted: it is compared with the bytes that are
// left before anything is done with it. Weights are skipped, never read, so a file of 2 GB takes no more memory than
// its names and nodes. The walk is stricter than protobuf wherever leniency would let two readers see two different
// models: a singular field given twice, a known field with the wrong wire type, a number that does not fit its field,
// and groups are all refused.
//
// What it refuses and why is in the errors; see Limits for the bounds. Semantics of operators, type inference and the
// order of nodes are left to the runtime.
//
// Source of the format: onnx-ml.proto of ONNX 1.21 (IR version 13).
package onnxfile

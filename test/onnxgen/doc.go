// Package onnxgen makes ONNX models for tests and benchmarks: real ones with random weights, and odd ones field by
// field. Models are deterministic: equal arguments give equal bytes.
package onnxgen

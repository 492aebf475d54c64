// Package isolation tests ONNX models in child processes against the same models in this one: the same answers, memory
// that comes back, and what the crossing costs.
package isolation

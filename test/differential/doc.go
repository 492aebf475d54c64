// Package differential holds what is served against ONNX Runtime itself: generated models, many clients, and memory
// that is poisoned before each run.
package differential

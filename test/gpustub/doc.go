// Package gpustub runs ONNX Runtime's real provider for CUDA on a machine without a GPU: over libraries that have the
// names and symbols of NVIDIA's, work in host memory, and compute nothing. What the provider does around its kernels is
// real: loading, reading options, taking memory, copying, waiting. The tests need the providers of "make runtime-gpu",
// which are large, and run by "make gpu-stub".
package gpustub

// Package vulkan compares ONNX Runtime's provider for WebGPU, on a software Vulkan device, with the CPU.
package vulkan

// Package nvml reads the telemetry of GPUs through NVML, NVIDIA's management library, which is opened at run time. It
// only reads. Devices are told apart by UUID, because NVML counts them in another order than CUDA.
package nvml

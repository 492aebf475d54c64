// Package vulkan is the border to the Vulkan loader, which is opened at run time: a program that uses this package starts
// on a machine without one. It lists devices and what they can do, and opens the loader for ONNX Runtime. A driver may
// end or stop the process that asks it, so only a process that can be spared calls Open and Devices.
package vulkan

// Package cuda is the border to the CUDA driver, which is opened at run time: a program that uses this package starts
// on a machine without one. Names follow gorgonia.org/cu where it has the concept.
//
// Every device is used through its primary context, the one that ONNX Runtime uses too. The current context belongs to
// an operating system's thread, so each call makes its context current first, and any goroutine may make any call. What
// is made is closed by its maker; nothing is closed by the garbage collector.
//
// Asynchronous copies take pinned host memory only: a copy from other memory would make the driver wait, or read memory
// that Go has moved on from.
package cuda

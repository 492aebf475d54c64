// Package gpu finds the GPUs of a machine: what they are, whether models can run on them and, when not, the one reason
// why. A machine without a GPU is in order.
package gpu

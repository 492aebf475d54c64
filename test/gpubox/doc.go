// Package gpubox runs the built program with models on a GPU, as a client and an operator meet it: it asks, kills, and
// stops it. It needs no test framework, because it also runs on a machine with a GPU and without Go.
package gpubox

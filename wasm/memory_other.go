//go:build !unix

package wasm

// reserve takes the memory from the Go heap.
func reserve(size int) ([]byte, error) { return make([]byte, max(size, 1)), nil }

// release leaves it to the garbage collector.
func release([]byte) {}

package native

import "unsafe"

// Bytes is the memory of a list of floats. The machine is little-endian, as tensors are.
func Bytes(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

// Floats is Bytes the other way. The memory is aligned to four bytes.
func Floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// Package aligned allocates memory that begins at a multiple of a number of bytes.
package aligned

import "unsafe"

// Bytes returns n bytes, all 0, that begin at a multiple of alignment, a power of two. The collector does not move
// them.
func Bytes(n, alignment int) []byte {
	raw := make([]byte, n+alignment-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & uintptr(alignment-1))
	return raw[skip : skip+n : skip+n]
}

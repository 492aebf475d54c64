package aligned

import (
	"testing"
	"unsafe"
)

func TestBytesBeginAtAMultiple(t *testing.T) {
	for _, alignment := range []int{1, 8, 64, 4096} {
		for _, n := range []int{0, 1, 63, 64, 5000} {
			b := Bytes(n, alignment)
			if len(b) != n || cap(b) != n {
				t.Errorf("%d bytes at %d: length %d, capacity %d", n, alignment, len(b), cap(b))
			}
			if n > 0 && uintptr(unsafe.Pointer(&b[0]))%uintptr(alignment) != 0 {
				t.Errorf("%d bytes begin at %p, want a multiple of %d", n, &b[0], alignment)
			}
		}
	}
}

package kernel

import "golang.org/x/sys/cpu"

// vectors tells whether the processor has those that vector_amd64.s is written for.
var vectors = cpu.X86.HasAVX2

// weighVector does what weighColours does for the first pixels of a row and returns for how many. It reads seven bytes
// and writes four numbers for each, so the last ones are left.
func weighVector(dst []float32, src []byte, across []pair) int {
	if !vectors {
		return 0
	}
	n := min(len(across), (len(dst)-1)/3)
	for n > 0 && int(across[n-1].at)+7 > len(src) {
		n--
	}
	if n <= 0 {
		return 0
	}
	weighAVX2(&dst[0], &src[0], &across[0], n)
	return n
}

// blendVector does what blend does for the first samples, sixteen at a time, and returns for how many.
func blendVector(out []byte, a, b []float32, wa, wb float32) int {
	n := len(out) &^ 15
	if !vectors || n == 0 {
		return 0
	}
	blendAVX2(&out[0], &a[0], &b[0], n, wa, wb)
	return n
}

// splitVector does what split does for the first pixels, eight at a time, and returns for how many. It reads four bytes
// more.
func splitVector(planes [3]Floats, src []byte, mean, scale [3]float32) int {
	n := min((len(src)-4)/3, len(planes[0])/4, len(planes[1])/4, len(planes[2])/4) &^ 7
	if !vectors || n <= 0 {
		return 0
	}
	splitAVX2(&planes[0][0], &planes[1][0], &planes[2][0], &src[0], n, &mean, &scale)
	return n
}

// weighAVX2 weighs n pixels, n > 0. For each pair p it reads 7 bytes at src[p.at], and writes 4 numbers, 3 after those
// of the pixel before.
//
//go:noescape
func weighAVX2(dst *float32, src *byte, across *pair, n int)

// blendAVX2 blends n samples, n > 0 a multiple of 16.
//
//go:noescape
func blendAVX2(out *byte, a, b *float32, n int, wa, wb float32)

// splitAVX2 splits n pixels, n > 0 a multiple of 8. It reads 3n + 4 bytes.
//
//go:noescape
func splitAVX2(first, second, third *byte, src *byte, n int, mean, scale *[3]float32)

package jpeg

// The inverse cosine transform of 8 x 8 coefficients,
//
//	p(x,y) = sum over u,v of c(u) c(v) / 4 * f(u,v) * cos((2x+1) u pi / 16) * cos((2y+1) v pi / 16), c(0) = sqrt(1/2), else 1,
//
// by columns, then by rows. Both times all is multiplied by sqrt(8): coefficient 0 of a line then counts once, and
// coefficient u sqrt(2) cos(u pi / 16) in the first sample. Numbers have fraction bits, and nothing is rounded but the
// result. With the even coefficients' sum e and the odd ones' o, sample x is e+o and sample 7-x is e-o.
const (
	fraction = 13
	k1       = 11363 // sqrt(2) cos(u pi / 16) for u = 1 to 7, with so many fraction bits
	k2       = 10703
	k3       = 9633
	k5       = 6437
	k6       = 4433
	k7       = 2260

	drop  = 2*fraction + 3          // bits of the result to drop
	level = 128<<drop + 1<<(drop-1) // what the samples lie around, and a half
	start = level >> fraction       // of which a row begins with
	right = 0xf0f0f0f0f0f0f0f0      // coefficients in columns 4 to 7
)

// transform writes the samples of a block into 8 rows of dst, each stride bytes behind the one before. seen is what
// read returns.
func transform(dst []byte, stride int, b *coefficients, seen uint64) {
	if seen == 0 {
		flat(dst, stride, b[0])
		return
	}
	words := 4
	if seen&right == 0 {
		words = 2
	}
	if seen>>32 == 0 {
		for w := range words {
			upper(b, w)
		}
	} else {
		for w := range words {
			column(b, w)
		}
	}
	for y := range 8 {
		words, out := b[4*y:4*y+4:4*y+4], dst[y*stride:][:8:8]
		if seen&right == 0 {
			left(out, words)
		} else {
			row(out, words)
		}
	}
}

// flat writes a block that has coefficient 0 alone.
func flat(dst []byte, stride int, dc int64) {
	v := clamp((dc<<(2*fraction) + level) >> drop)
	for y := range 8 {
		out := dst[y*stride:][:8:8]
		out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7] = v, v, v, v, v, v, v, v
	}
}

// column transforms two columns.
func column(b *coefficients, w int) {
	b = (*coefficients)(b[:])
	x0, x1, x2, x3, x4, x5, x6, x7 := b[w&3], b[w&3+4], b[w&3+8], b[w&3+12], b[w&3+16], b[w&3+20], b[w&3+24], b[w&3+28]
	s, d := (x0+x4)<<fraction, (x0-x4)<<fraction
	p, q := k2*x2+k6*x6, k6*x2-k2*x6
	e0, e1, e2, e3 := s+p, d+q, d-q, s-p
	o0, o1 := k1*x1+k3*x3+k5*x5+k7*x7, k3*x1-k7*x3-k1*x5-k5*x7
	o2, o3 := k5*x1-k1*x3+k7*x5+k3*x7, k7*x1-k5*x3+k3*x5-k1*x7
	b[w&3], b[w&3+4], b[w&3+8], b[w&3+12] = e0+o0, e1+o1, e2+o2, e3+o3
	b[w&3+16], b[w&3+20], b[w&3+24], b[w&3+28] = e3-o3, e2-o2, e1-o1, e0-o0
}

// upper is column where the lower half of the coefficients is 0.
func upper(b *coefficients, w int) {
	x0, x1, x2, x3 := b[w&3]<<fraction, b[w&3+4], b[w&3+8], b[w&3+12]
	p, q := k2*x2, k6*x2
	e0, e1, e2, e3 := x0+p, x0+q, x0-q, x0-p
	o0, o1, o2, o3 := k1*x1+k3*x3, k3*x1-k7*x3, k5*x1-k1*x3, k7*x1-k5*x3
	b[w&3], b[w&3+4], b[w&3+8], b[w&3+12] = e0+o0, e1+o1, e2+o2, e3+o3
	b[w&3+16], b[w&3+20], b[w&3+24], b[w&3+28] = e3-o3, e2-o2, e1-o1, e0-o0
}

// row transforms a row. The upper half of a word is one too low where the lower half is below 0, which is nothing
// beside its fraction.
func row(out []byte, words []int64) {
	_, _ = out[7], words[3]
	x0, x1, x2, x3 := int64(int32(words[0])), words[0]>>32, int64(int32(words[1])), words[1]>>32
	x4, x5, x6, x7 := int64(int32(words[2])), words[2]>>32, int64(int32(words[3])), words[3]>>32
	x0 += start
	s, d := (x0+x4)<<fraction, (x0-x4)<<fraction
	p, q := k2*x2+k6*x6, k6*x2-k2*x6
	o0, o1 := k1*x1+k3*x3+k5*x5+k7*x7, k3*x1-k7*x3-k1*x5-k5*x7
	o2, o3 := k5*x1-k1*x3+k7*x5+k3*x7, k7*x1-k5*x3+k3*x5-k1*x7
	put(out, s+p, d+q, d-q, s-p, o0, o1, o2, o3)
}

// left is row where the right half of the coefficients is 0.
func left(out []byte, words []int64) {
	_, _ = out[7], words[1]
	x0, x1, x2, x3 := int64(int32(words[0])), words[0]>>32, int64(int32(words[1])), words[1]>>32
	x0 = (x0 + start) << fraction
	p, q := k2*x2, k6*x2
	o0, o1, o2, o3 := k1*x1+k3*x3, k3*x1-k7*x3, k5*x1-k1*x3, k7*x1-k5*x3
	put(out, x0+p, x0+q, x0-q, x0-p, o0, o1, o2, o3)
}

// put writes the samples of a row.
func put(out []byte, e0, e1, e2, e3, o0, o1, o2, o3 int64) {
	_ = out[7]
	v0, v1, v2, v3 := (e0+o0)>>drop, (e1+o1)>>drop, (e2+o2)>>drop, (e3+o3)>>drop
	v4, v5, v6, v7 := (e3-o3)>>drop, (e2-o2)>>drop, (e1-o1)>>drop, (e0-o0)>>drop
	if uint64(v0|v1|v2|v3|v4|v5|v6|v7) <= 255 {
		out[0], out[1], out[2], out[3] = byte(v0), byte(v1), byte(v2), byte(v3)
		out[4], out[5], out[6], out[7] = byte(v4), byte(v5), byte(v6), byte(v7)
		return
	}
	out[0], out[1], out[2], out[3] = clamp(v0), clamp(v1), clamp(v2), clamp(v3)
	out[4], out[5], out[6], out[7] = clamp(v4), clamp(v5), clamp(v6), clamp(v7)
}

func clamp(v int64) byte { return byte(min(max(v, 0), 255)) }

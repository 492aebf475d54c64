package kernel

// The loops that pictures of three colours spend their time in. Where the processor has vectors, rows go through those
// as far as they reach; the plain loops do the rest, with the same bits.

// pair is what one pixel of a row is made of: three bytes of the source row from at on, and the three behind them, each
// with its weight.
type pair struct {
	at        int32
	near, far float32
}

// pairs returns taps of two weights each as pairs of pixels of three bytes.
func pairs(taps []tap) []pair {
	list := make([]pair, len(taps))
	for i, t := range taps {
		list[i] = pair{int32(3 * t.first), t.weights[0], t.weights[1]}
	}
	return list
}

// weighColours is weigh for three channels and samples that are made of two.
func weighColours(dst []float32, src []byte, across []pair) {
	weighRest(dst, src, across, weighVector(dst, src, across))
}

// weighRest does pixels from x on.
func weighRest(dst []float32, src []byte, across []pair, x int) {
	for ; x < len(across); x++ {
		t := &across[x]
		s, d := src[t.at:][:6:6], dst[3*x:][:3:3]
		d[0] = t.near*float32(s[0]) + t.far*float32(s[3])
		d[1] = t.near*float32(s[1]) + t.far*float32(s[4])
		d[2] = t.near*float32(s[2]) + t.far*float32(s[5])
	}
}

// blend makes a row of the result of two weighed ones. The weights sum to 1, so no number is above 255.5.
func blend(out []byte, a, b []float32, wa, wb float32) {
	a, b = a[:len(out)], b[:len(out)]
	blendRest(out, a, b, wa, wb, blendVector(out, a, b, wa, wb))
}

// blendRest does samples from i on.
func blendRest(out []byte, a, b []float32, wa, wb float32, i int) {
	for ; i < len(out); i++ {
		out[i] = uint8(int32(0.5 + wa*a[i] + wb*b[i]))
	}
}

// split writes (x - mean) * scale of each colour of src, which has three, into a plane of its own.
func split(planes [3]Floats, src []byte, mean, scale [3]float32) {
	splitRest(planes, src, mean, scale, splitVector(planes, src, mean, scale))
}

// splitRest does pixels from x on.
func splitRest(planes [3]Floats, src []byte, mean, scale [3]float32, x int) {
	for c, plane := range planes {
		for i := x; i < len(src)/3; i++ {
			plane.set(i, (float32(src[3*i+c])-mean[c])*scale[c])
		}
	}
}

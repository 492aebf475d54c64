package preprocess

import "math"

// CPU makes the planes of one picture as the kernel does. picture is the whole picture, to has three planes of the size out. Each
// conversion to float32 rounds, so that no compiler joins a multiplication and an addition.
func CPU(to []float32, picture []byte, p Part, out Size, n Normal) {
	sx, sy := ratios(p.Size, out)
	plane := out.Width * out.Height
	for i := range plane {
		x0, x1, tx := place(i%out.Width, sx, p.Size.Width)
		y0, y1, ty := place(i/out.Width, sy, p.Size.Height)
		top, bottom := picture[(p.Y+y0)*p.Stride+3*p.X:], picture[(p.Y+y1)*p.Stride+3*p.X:]
		for c := range 3 {
			a := mix(float32(top[3*x0+c]), float32(top[3*x1+c]), tx)
			b := mix(float32(bottom[3*x0+c]), float32(bottom[3*x1+c]), tx)
			to[plane*c+i] = float32((mix(a, b, ty) - n.Mean[c]) * n.Scale[c])
		}
	}
}

// place returns the two pixels that a pixel of the tensor lies between, and how far from the first.
func place(i int, ratio float32, size int) (first, second int, t float32) {
	f := float32((float32(i)+0.5)*ratio) - 0.5
	f = max(f, 0)
	first = min(int(f), size-1)
	return first, min(first+1, size-1), f - float32(first)
}

func mix(a, b, t float32) float32 { return a + float32(float32(b-a)*t) }

// Half rounds to FP16 as the kernel does: to the nearest, ties to even.
func Half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	abs := bits &^ (1 << 31)
	switch {
	case abs > 0x7f800000:
		return 0x7fff // the one NaN that the device makes
	case abs >= 0x477ff000: // at least half way to what is too large
		return sign | 0x7c00
	case abs < 0x38800000: // below the smallest normal number: one step is 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*(1<<24)))
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-0x38000000)>>13)
}

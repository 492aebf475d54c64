// Package picture makes tensors of edgewise.Pictures on the CPU.
package picture

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
)

// Bounds of an edgewise.Picture and of what is made of it.
const (
	MaxSide  = 1 << 14 // pixels of a side
	MaxCount = 1024    // of the pictures of a tensor
)

// Settle makes the content of a tensor that has Pictures, once, also when it is called for several copies of the tensor
// at the same time; for others it does nothing. Whoever reads Data of a tensor that may have Pictures calls it before.
func Settle(t *edgewise.Tensor) {
	p := t.Pictures
	if p == nil {
		return
	}
	p.Made.Do(func() {
		size := len(t.Data) / len(p.List)
		for i := range p.List {
			Planes(&p.List[i], t.Data[i*size:(i+1)*size], t.Type, p.Width, p.Height, func() {})
		}
	})
}

// Valid tells whether the part lies within the picture, and the picture within its pixels.
func Valid(p *edgewise.Picture) bool {
	return p.X >= 0 && p.Y >= 0 && p.Width > 0 && p.Height > 0 && p.Width <= MaxSide &&
		p.Height <= MaxSide && p.X <= MaxSide && p.Y <= MaxSide &&
		p.Stride <= 3*2*MaxSide && 3*(p.X+p.Width) <= p.Stride &&
		(p.Y+p.Height-1)*p.Stride+3*(p.X+p.Width) <= len(p.Pixels)
}

// Part returns the pixels of the part without gaps: those of the picture where the part is all of it, else a copy.
func Part(p *edgewise.Picture) []byte {
	row := 3 * p.Width
	if p.X == 0 && p.Stride == row {
		return p.Pixels[p.Y*row : (p.Y+p.Height)*row]
	}
	part := make([]byte, 0, row*p.Height)
	for y := p.Y; y < p.Y+p.Height; y++ {
		part = append(part, p.Pixels[y*p.Stride+3*p.X:][:row]...)
	}
	return part
}

// Planes writes the row, FP32 or FP16, of width times height pixels into to, which has exactly the room, and calls
// check after each line. The picture is Valid.
func Planes(p *edgewise.Picture, to []byte, kind edgewise.DataType, width, height int, check func()) {
	across, down := between(p.Width, width), between(p.Height, height)
	put := func(i int, v float32) { binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(v)) }
	if kind == edgewise.FP16 {
		put = func(i int, v float32) { binary.LittleEndian.PutUint16(to[2*i:], Half(v)) }
	}
	plane := width * height
	for y, v := range down {
		top, bottom := p.Pixels[(p.Y+v.first)*p.Stride+3*p.X:], p.Pixels[(p.Y+v.second)*p.Stride+3*p.X:]
		for x, h := range across {
			for c := range 3 {
				a := mix(float32(top[3*h.first+c]), float32(top[3*h.second+c]), h.t)
				b := mix(float32(bottom[3*h.first+c]), float32(bottom[3*h.second+c]), h.t)
				put(plane*c+y*width+x, float32(float32(mix(a, b, v.t)-p.Mean[c])*p.Scale[c]))
			}
		}
		check()
	}
}

// place is where a pixel of a row lies: between two pixels of the picture, and how far from the first.
type place struct {
	first, second int
	t             float32
}

// between returns the places of n pixels along a side of size pixels. Each conversion to float32 rounds, so that no
// compiler joins a multiplication and an addition.
func between(size, n int) []place {
	ratio := float32(size) / float32(n)
	list := make([]place, n)
	for i := range list {
		f := max(float32(float32((float32(i)+0.5)*ratio)-0.5), 0)
		first := min(int(f), size-1)
		list[i] = place{first, min(first+1, size-1), f - float32(first)}
	}
	return list
}

func mix(a, b, t float32) float32 { return a + float32(float32(b-a)*t) }

// Half rounds to FP16 as a GPU does: to the nearest, ties to even.
func Half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	abs := bits &^ (1 << 31)
	switch {
	case abs > 0x7f800000:
		return 0x7fff // the one NaN that a GPU makes
	case abs >= 0x477ff000: // at least half way to what is too large
		return sign | 0x7c00
	case abs < 0x38800000: // below the smallest normal number: one step is 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*(1<<24)))
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-0x38000000)>>13)
}

package picture

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
)

func TestHalf(t *testing.T) {
	for v, want := range map[float32]uint16{
		0: 0, 1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 65519: 0x7bff, 65520: 0x7c00, 1e9: 0x7c00, 5.9604645e-08: 1,
		2.9802322e-08: 0, 6.1035156e-05: 0x0400, 1.00048828125: 0x3c00, 1.0014648: 0x3c02,
	} {
		if got := Half(v); got != want {
			t.Errorf("%v: %04x, want %04x", v, got, want)
		}
	}
	if got := Half(float32(math.NaN())); got != 0x7fff {
		t.Errorf("NaN: %04x", got)
	}
}

func drawPicture(r *rapid.T) edgewise.Picture {
	side := func(name string) int { return rapid.IntRange(1, 20).Draw(r, name) }
	w, h := side("w"), side("h")
	x, y := rapid.IntRange(0, w-1).Draw(r, "x"), rapid.IntRange(0, h-1).Draw(r, "y")
	stride := 3*w + rapid.IntRange(0, 4).Draw(r, "gap")
	p := edgewise.Picture{
		Stride: stride, X: x, Y: y, Width: rapid.IntRange(1, w-x).Draw(r, "width"),
		Height: rapid.IntRange(1, h-y).Draw(r, "height"), Scale: [3]float32{1, 1, 1},
	}
	p.Pixels = rapid.SliceOfN(rapid.Byte(), stride*h, stride*h).Draw(r, "pixels")
	return p
}

// TestPlanesInterpolate compares with the formula in higher precision, and looks that a picture at its own size stays
// as it is.
func TestPlanesInterpolate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPicture(r)
		if !Valid(&p) {
			r.Fatalf("%+v is not valid", p)
		}
		w, h := rapid.IntRange(1, 20).Draw(r, "to width"), rapid.IntRange(1, 20).Draw(r, "to height")
		to := make([]byte, 4*3*w*h)
		Planes(&p, to, edgewise.FP32, w, h, func() {})
		at := func(x, y, c int) float64 {
			return float64(p.Pixels[(p.Y+min(y, p.Height-1))*p.Stride+3*(p.X+min(x, p.Width-1))+c])
		}
		for c := range 3 {
			for y := range h {
				for x := range w {
					fx, fy := max((float64(x)+0.5)*float64(p.Width)/float64(w)-0.5, 0),
						max((float64(y)+0.5)*float64(p.Height)/float64(h)-0.5, 0)
					x0, y0 := int(fx), int(fy)
					tx, ty := fx-float64(x0), fy-float64(y0)
					want := (at(x0, y0, c)*(1-tx)+at(x0+1, y0, c)*tx)*(1-ty) + (at(x0, y0+1, c)*(1-tx)+at(x0+1, y0+1, c)*tx)*ty
					got := math.Float32frombits(binary.LittleEndian.Uint32(to[4*(c*w*h+y*w+x):]))
					if math.Abs(float64(got)-want) > 1e-2 || p.Width == w && p.Height == h && got != float32(at(x, y, c)) {
						r.Fatalf("channel %d of (%d, %d): %v, want %v", c, x, y, got, want)
					}
				}
			}
		}
	})
}

func TestPartHasNoGaps(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := drawPicture(r)
		whole := edgewise.Picture{Pixels: Part(&p), Stride: 3 * p.Width, Width: p.Width, Height: p.Height, Scale: p.Scale}
		a, b := make([]byte, 3*5*7*2), make([]byte, 3*5*7*2)
		Planes(&p, a, edgewise.FP16, 5, 7, func() {})
		Planes(&whole, b, edgewise.FP16, 5, 7, func() {})
		if string(a) != string(b) {
			r.Fatal("the part is another picture")
		}
	})
}

func TestPicturesOutsideTheirPixels(t *testing.T) {
	good := edgewise.Picture{Pixels: make([]byte, 48), Stride: 12, Width: 4, Height: 4}
	for name, change := range map[string]func(*edgewise.Picture){
		"nothing": func(p *edgewise.Picture) { p.Width = 0 }, "before": func(p *edgewise.Picture) { p.X = -1 },
		"beside": func(p *edgewise.Picture) { p.X = 1 }, "below": func(p *edgewise.Picture) { p.Y = 1 },
		"too large":  func(p *edgewise.Picture) { p.Height = MaxSide + 1 },
		"a wide row": func(p *edgewise.Picture) { p.Stride = math.MaxInt / 2 },
		"few pixels": func(p *edgewise.Picture) { p.Pixels = p.Pixels[:47] },
	} {
		p := good
		if change(&p); Valid(&p) || !Valid(&good) {
			t.Errorf("%s is valid", name)
		}
	}
}

func TestATensorIsSettledOnce(t *testing.T) {
	p := &edgewise.Pictures{Width: 1, Height: 1, List: []edgewise.Picture{
		{Pixels: []byte{1, 2, 3}, Stride: 3, Width: 1, Height: 1, Scale: [3]float32{1, 1, 1}},
		{Pixels: []byte{4, 5, 6}, Stride: 3, Width: 1, Height: 1, Mean: [3]float32{4, 0, 0}, Scale: [3]float32{1, 2, 1}},
	}}
	a := edgewise.Tensor{Type: edgewise.FP16, Shape: edgewise.Shape{2, 3, 1, 1}, Data: make([]byte, 12), Pictures: p}
	b := a
	var readers sync.WaitGroup
	for _, tensor := range []*edgewise.Tensor{&a, &b} {
		readers.Go(func() {
			Settle(tensor)
			for i, want := range []float32{1, 2, 3, 0, 10, 6} {
				if got := binary.LittleEndian.Uint16(tensor.Data[2*i:]); got != Half(want) {
					t.Errorf("element %d: %04x, want %v", i, got, want)
				}
			}
		})
	}
	readers.Wait()
	a.Data[0] = 77
	if Settle(&a); a.Data[0] != 77 {
		t.Error("it was made again")
	}
	plain := edgewise.Tensor{Data: []byte{1}}
	Settle(&plain)
}

// single is what a half stands for.
func single(h uint16) float64 {
	sign, exponent, fraction := 1-2*float64(h>>15), int(h>>10&31), float64(h&0x3ff)
	switch exponent {
	case 0:
		return sign * fraction * math.Pow(2, -24)
	case 31:
		return sign * math.Inf(1)
	}
	return sign * (1 + fraction/1024) * math.Pow(2, float64(exponent-15))
}

func TestHalfIsTheNearest(t *testing.T) {
	if Half(float32(math.NaN()))&0x7e00 != 0x7e00 || Half(float32(math.Inf(-1))) != 0xfc00 ||
		Half(65520) != 0x7c00 || Half(65519) != 0x7bff {
		t.Error("the edges are wrong")
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float32Range(-65504, 65504).Draw(t, "v")
		h := Half(v)
		distance := math.Abs(single(h) - float64(v))
		for _, other := range []uint16{h - 1, h + 1} {
			if other&0x7c00 != 0x7c00 && other>>15 == h>>15 && math.Abs(single(other)-float64(v)) < distance {
				t.Errorf("%v is %#x (%v), but %#x is nearer", v, h, single(h), other)
			}
		}
	})
}

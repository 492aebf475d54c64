package kernel

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Mode says how a picture is resized.
type Mode uint32

// The modes, by their numbers in the ABI.
const (
	Nearest Mode = iota
	Bilinear
	Area
	modes
)

func (m Mode) valid() error {
	if m >= modes {
		return fmt.Errorf("mode is %d: want 0 (nearest), 1 (bilinear) or 2 (area)", m)
	}
	return nil
}

// Resize resizes src into dst; both have the same channels, and exactly as many bytes as their sizes say.
func Resize(dst []byte, to Size, src []byte, from Size, mode Mode, check Check) error {
	if err := errors.Join(from.Valid(), to.Valid(), mode.valid()); err != nil {
		return err
	}
	resize(canvas{dst, to.Width * to.Channels}, to, src, from, mode, &pacer{check: check})
	return nil
}

// canvas is where a picture is written: rows that begin a number of bytes apart.
type canvas struct {
	dst    []byte
	stride int
}

// row returns the bytes of row y from its beginning on.
func (t canvas) row(y int) []byte { return t.dst[y*t.stride:] }

// resize is Resize for what has been checked.
func resize(dst canvas, to Size, src []byte, from Size, mode Mode, p *pacer) {
	switch {
	case from == to:
		row := from.Width * from.Channels
		for y := range from.Height {
			copy(dst.row(y)[:row], src[y*row:])
			p.add(row / 8)
		}
	case mode == Nearest:
		resizeNearest(dst, to, src, from, p)
	default:
		taps := bilinearTaps
		if mode == Area {
			taps = areaTaps
		}
		resizeTaps(dst, to, src, from, taps(from.Width, to.Width), taps(from.Height, to.Height), p)
	}
}

func resizeNearest(dst canvas, to Size, src []byte, from Size, p *pacer) {
	columns := make([]int, to.Width)
	for x := range columns {
		columns[x] = nearest(x, from.Width, to.Width) * from.Channels
	}
	n := from.Channels
	for y := range to.Height {
		row := src[nearest(y, from.Height, to.Height)*from.Width*n:]
		out := dst.row(y)
		for _, at := range columns {
			for c := range n {
				out[c] = row[at+c]
			}
			out = out[n:]
		}
		p.add(to.Width * n)
	}
}

func nearest(x, from, to int) int {
	return min(int((float64(x)+0.5)*float64(from)/float64(to)), from-1)
}

// tap is what one sample of the result is made of: source samples from first on, each with its weight. Weights sum to
// 1.
type tap struct {
	first   int
	weights []float32
}

// bilinearTaps weigh the two source samples around each centre.
func bilinearTaps(from, to int) []tap {
	taps := make([]tap, to)
	weights := make([]float32, 2*to)
	for x := range taps {
		at := (float64(x)+0.5)*float64(from)/float64(to) - 0.5
		at = min(max(at, 0), float64(from-1))
		first := min(int(at), max(from-2, 0))
		w := weights[2*x : 2*x+2]
		w[1] = float32(at - float64(first))
		w[0] = 1 - w[1]
		if from == 1 {
			w = []float32{1}
		}
		taps[x] = tap{first, w}
	}
	return taps
}

// areaTaps weigh the source samples under each sample of the result by how much of it they cover.
func areaTaps(from, to int) []tap {
	taps := make([]tap, to)
	scale := float64(from) / float64(to)
	for x := range taps {
		begin, end := float64(x)*scale, float64(x+1)*scale
		first := int(begin)
		last := min(int(math.Ceil(end-1e-9)), from)
		t := tap{first, make([]float32, max(last-first, 1))}
		sum := 0.0
		for i := range t.weights {
			covered := max(min(end, float64(first+i+1))-max(begin, float64(first+i)), 0)
			t.weights[i] = float32(covered)
			sum += covered
		}
		for i := range t.weights {
			t.weights[i] /= float32(sum)
		}
		taps[x] = t
	}
	return taps
}

// resizeTaps weighs columns first, each source row once, then rows.
func resizeTaps(dst canvas, to Size, src []byte, from Size, across, down []tap, p *pacer) {
	n := from.Channels
	width := to.Width * n
	rows := ring{}
	line := make([]float32, width)
	var two []pair // of pictures of three colours whose samples are made of two
	if n == 3 && twofold(across) {
		two = pairs(across)
	}
	row := func(source int) []float32 {
		return rows.get(source, width, func(row []float32) {
			line := src[source*from.Width*n:][:from.Width*n]
			if two != nil {
				weighColours(row, line, two)
			} else {
				weigh(row, line, across, n)
			}
			p.add(2 * from.Width * n)
		})
	}
	for y, t := range down {
		if len(t.weights) == 2 {
			blend(dst.row(y)[:width], row(t.first), row(t.first+1), t.weights[0], t.weights[1])
			p.add(2 * width)
			continue
		}
		for i := range line {
			line[i] = 0.5
		}
		for k, weight := range t.weights {
			row := row(t.first + k)
			for i, v := range row {
				line[i] += weight * v
			}
		}
		out := dst.row(y)[:width]
		for i, v := range line {
			out[i] = uint8(min(v, 255.5))
		}
		p.add(width * len(t.weights))
	}
}

// twofold tells whether all samples are made of two.
func twofold(taps []tap) bool {
	return !slices.ContainsFunc(taps, func(t tap) bool { return len(t.weights) != 2 })
}

// weigh makes one row of the result's width.
func weigh(dst []float32, src []byte, across []tap, n int) {
	for x, t := range across {
		for c := range n {
			sum := float32(0)
			at := t.first*n + c
			for _, w := range t.weights {
				sum += w * float32(src[at])
				at += n
			}
			dst[x*n+c] = sum
		}
	}
}

// ring keeps the last two weighed rows: neighbouring rows of a result share them.
type ring struct {
	index [2]int // of the source row, plus 1
	rows  [2][]float32
}

func (r *ring) get(source, width int, weigh func([]float32)) []float32 {
	slot := source & 1
	if r.index[slot] == source+1 {
		return r.rows[slot]
	}
	if r.rows[slot] == nil {
		r.rows[slot] = make([]float32, width)
	}
	r.index[slot] = source + 1
	weigh(r.rows[slot])
	return r.rows[slot]
}

// Map leads from a picture to its letterbox: x_dst = x_src*ScaleX + PadX.
type Map struct{ ScaleX, ScaleY, PadX, PadY float32 }

// Letterbox resizes src with one scale into the middle of dst and fills the rest.
func Letterbox(dst []byte, to Size, src []byte, from Size, mode Mode, fill uint8, check Check) (Map, error) {
	if err := errors.Join(from.Valid(), to.Valid(), mode.valid()); err != nil {
		return Map{}, err
	}
	scale := min(float64(to.Width)/float64(from.Width), float64(to.Height)/float64(from.Height))
	inner := Size{fit(from.Width, scale, to.Width), fit(from.Height, scale, to.Height), to.Channels}
	padX, padY := (to.Width-inner.Width)/2, (to.Height-inner.Height)/2
	all := canvas{dst, to.Width * to.Channels}
	p := &pacer{check: check}
	all.frame(to, inner, padX, padY, fill, p)
	resize(canvas{dst[(padY*to.Width+padX)*to.Channels:], all.stride}, inner, src, from, mode, p)
	return Map{
		float32(inner.Width) / float32(from.Width), float32(inner.Height) / float32(from.Height), float32(padX), float32(padY),
	}, nil
}

// frame fills what lies around the inner picture.
func (t canvas) frame(to, inner Size, padX, padY int, fill uint8, p *pacer) {
	for y := range to.Height {
		row, n := t.row(y), to.Channels
		if y < padY || y >= padY+inner.Height {
			flood(row[:to.Width*n], fill)
		} else {
			flood(row[:padX*n], fill)
			flood(row[(padX+inner.Width)*n:to.Width*n], fill)
		}
		p.add(to.Width * n / 8)
	}
}

// flood sets all bytes to one value.
func flood(b []byte, v uint8) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

func fit(side int, scale float64, most int) int {
	return min(max(int(math.Floor(float64(side)*scale+0.5)), 1), most)
}

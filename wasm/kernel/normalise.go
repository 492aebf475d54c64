package kernel

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise/picture"
)

// Layout is how Normalise writes a picture.
type Layout struct {
	Half     bool // FP16 instead of FP32
	Together bool // pixels interleaved (NHWC) instead of planes (NCHW)
	Reverse  bool // channels in reverse order
}

// Normalise writes (x - mean[c]) * scale[c] for each sample of src. mean and scale have one entry for each channel of
// src; dst has exactly the room. Every sample is one of 256 values, so each channel has a table.
func Normalise(dst, src []byte, s Size, mean, scale []float32, l Layout, check Check) error {
	if err := s.Valid(); err != nil {
		return err
	}
	p := pacer{check: check}
	n := s.Channels
	if n == 3 && !l.Half && !l.Together {
		normaliseColours(dst, src, s.Width*s.Height, mean, scale, l.Reverse, &p)
		return nil
	}
	for c := range n {
		var table [256]float32
		for v := range table {
			table[v] = (float32(v) - mean[c]) * scale[c]
		}
		place := c
		if l.Reverse {
			place = n - 1 - c
		}
		first, step := place*s.Width*s.Height, 1
		if l.Together {
			first, step = place, n
		}
		if l.Half {
			planeHalf(dst, src, c, n, first, step, &table, &p)
		} else {
			plane(dst, src, c, n, first, step, &table, &p)
		}
	}
	return nil
}

// normaliseColours is Normalise for three planes of FP32.
func normaliseColours(dst, src []byte, pixels int, mean, scale []float32, reverse bool, p *pacer) {
	planes := [3]Floats{dst[:4*pixels], dst[4*pixels : 8*pixels], dst[8*pixels:]}
	if reverse {
		planes[0], planes[2] = planes[2], planes[0]
	}
	for begin := 0; begin < pixels; begin += stride {
		end := min(begin+stride, pixels)
		var part [3]Floats
		for c, plane := range planes {
			part[c] = plane[4*begin : 4*end]
		}
		split(part, src[3*begin:3*end], [3]float32(mean), [3]float32(scale))
		p.add(end - begin)
	}
}

func plane(dst, src []byte, c, n, first, step int, table *[256]float32, p *pacer) {
	out := 4 * first
	for begin := c; begin < len(src); begin += n * stride {
		for i := begin; i < min(begin+n*stride, len(src)); i += n {
			binary.LittleEndian.PutUint32(dst[out:], math.Float32bits(table[src[i]]))
			out += 4 * step
		}
		p.add(stride)
	}
}

func planeHalf(dst, src []byte, c, n, first, step int, table *[256]float32, p *pacer) {
	var half [256]uint16
	for v := range half {
		half[v] = picture.Half(table[v])
	}
	out := 2 * first
	for begin := c; begin < len(src); begin += n * stride {
		for i := begin; i < min(begin+n*stride, len(src)); i += n {
			binary.LittleEndian.PutUint16(dst[out:], half[src[i]])
			out += 2 * step
		}
		p.add(stride)
	}
}

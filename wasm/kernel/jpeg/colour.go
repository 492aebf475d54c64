package jpeg

// painter writes the first rows of the planes into dst and returns the rest of dst.
type painter func(dst []byte, rows int) []byte

func painterOf(d *decoder, channels int) painter {
	width := d.Width
	light := func(y int) []byte { return d.planes[0][y*d.strides[0]:][:width] }
	if channels == 1 || d.Components == 1 {
		return func(dst []byte, rows int) []byte {
			for y := range rows {
				dst = grey(dst, light(y), channels)
			}
			return dst
		}
	}
	t := newTints()
	down, across := d.v/d.components[1].v, d.h/d.components[1].h
	return func(dst []byte, rows int) []byte {
		for y := range rows {
			at := y / down * d.strides[1]
			blue, red := d.planes[1][at:][:d.strides[1]], d.planes[2][at:][:d.strides[2]]
			out := dst[:width*channels]
			switch {
			case channels == 3 && across == 1:
				t.singles(out, light(y), blue, red)
			case channels == 3 && across == 2:
				t.pairs(out, light(y), blue, red)
			default:
				t.pixels(out, light(y), blue, red, across, channels)
			}
			dst = dst[width*channels:]
		}
		return dst
	}
}

func grey(dst, row []byte, channels int) []byte {
	if channels == 1 {
		return dst[copy(dst, row):]
	}
	for _, v := range row {
		dst[0], dst[1], dst[2] = v, v, v
		if channels == 4 {
			dst[3] = 255
		}
		dst = dst[channels:]
	}
	return dst
}

// A word holds red, green and blue of a pixel, each as 8 bits and 12 fraction bits, and a bit that is set when it is
// below 0 or above 255. The colours are those of package image/color, which has 16 fraction bits: one in some thousands
// is 1 off.
const (
	lane  = 21
	part  = 12                               // fraction bits
	every = 1 | 1<<lane | 1<<(2*lane)        // 1 of the last fraction bit in each colour
	bound = every << (part + 8)              // the bits that say that a colour is out of its bounds
	shade = (0x10101 >> (16 - part)) * every // what one of light adds: it rounds
)

// tints is what the two colour components add to the light of a pixel.
type tints struct{ blue, red [256]int64 }

func newTints() *tints {
	t := &tints{}
	for i := range 256 {
		v := int64(i) - 128
		t.blue[i] = fit(-22554*v)<<lane + fit(116130*v)<<(2*lane)
		t.red[i] = fit(91881*v) + fit(-46802*v)<<lane
	}
	return t
}

// fit drops the last fraction bits of a number that has 16.
func fit(v int64) int64 { return (v + 1<<(15-part)) >> (16 - part) }

// pairs converts a row whose pixels share their colour in pairs.
func (t *tints) pairs(dst, light, blue, red []byte) {
	n := len(light) / 2
	for i := range n {
		l, d := light[2*i:][:2:2], dst[6*i:][:6:6]
		tint := t.blue[blue[i]] + t.red[red[i]]
		a, b := tint+int64(l[0])*shade, tint+int64(l[1])*shade
		if (a|b)&bound != 0 {
			limited(d[:3:3], tint, l[0])
			limited(d[3:6:6], tint, l[1])
			continue
		}
		d[0], d[1], d[2] = byte(a>>part), byte(a>>(part+lane)), byte(a>>(part+2*lane))
		d[3], d[4], d[5] = byte(b>>part), byte(b>>(part+lane)), byte(b>>(part+2*lane))
	}
	if len(light) > 2*n {
		limited(dst[6*n:], t.blue[blue[n]]+t.red[red[n]], light[2*n])
	}
}

// singles converts a row whose pixels have colours of their own.
func (t *tints) singles(dst, light, blue, red []byte) {
	blue, red = blue[:len(light)], red[:len(light)]
	for i, l := range light {
		d := dst[3*i:][:3:3]
		tint := t.blue[blue[i]] + t.red[red[i]]
		w := tint + int64(l)*shade
		if w&bound != 0 {
			limited(d, tint, l)
			continue
		}
		d[0], d[1], d[2] = byte(w>>part), byte(w>>(part+lane)), byte(w>>(part+2*lane))
	}
}

// pixels converts a row in which so many pixels share their colour.
func (t *tints) pixels(dst, light, blue, red []byte, across, channels int) {
	for x, l := range light {
		limited(dst, t.blue[blue[x/across]]+t.red[red[x/across]], l)
		if channels == 4 {
			dst[3] = 255
		}
		dst = dst[channels:]
	}
}

// limited writes red, green and blue within their bounds. Those of a tint are between -256 and 255.
func limited(dst []byte, tint int64, light byte) {
	_ = dst[2]
	l := int64(light) * (shade & (1<<lane - 1))
	r := tint << (64 - lane) >> (64 - lane)
	tint = (tint - r) >> lane
	g := tint << (64 - lane) >> (64 - lane)
	b := (tint - g) >> lane
	dst[0], dst[1], dst[2] = clamp((r+l)>>part), clamp((g+l)>>part), clamp((b+l)>>part)
}

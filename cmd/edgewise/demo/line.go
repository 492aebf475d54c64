package demo

import (
	"image"
	"math"
)

const (
	lineHeight   = 48   // pixels of height that the line models take
	maxLineWidth = 3200 // pixels of width of a line at that height; longer lines are squeezed
	minTurned    = 1.5  // a region this many times as high as wide holds a line that runs up or down
)

// line is one line of text, cut out upright at the height that the models take.
type line struct {
	quad  Quad
	width int // of picture
	// picture is lineHeight high. Its first column is where the line is read from, once it is known to be upright.
	picture *image.RGBA
	flipped bool // whether the line stood on its head
}

// cut takes the region out of picture. A region that is much higher than wide is turned counter-clockwise, so that a
// line that runs upwards or downwards becomes a level one, which may stand on its head.
func cut(picture *image.RGBA, quad Quad) line {
	if quad.Height() >= minTurned*quad.Width() {
		quad = quad.rotated(1)
	}
	height := max(1, math.Round(quad.Height()))
	width := max(1, math.Round(quad.Width()))
	// Cut at the size that it has, so that reducing is left to a filter.
	size := image.Pt(int(width), int(height))
	flat := warp(picture, quad, size)
	final := image.Pt(min(maxLineWidth, max(1, int(math.Ceil(lineHeight*width/height)))), lineHeight)
	return line{quad: quad, width: final.X, picture: resize(flat, final)}
}

// turn turns the line by 180 degrees.
func (l *line) turn() {
	pix := l.picture.Pix
	turned := image.NewRGBA(l.picture.Rect)
	for i := 0; i < len(pix); i += 4 {
		copy(turned.Pix[len(pix)-4-i:][:4], pix[i:][:4])
	}
	l.picture, l.quad, l.flipped = turned, l.quad.rotated(2), true
}

// normalise writes a line's picture, squeezed to width columns, into 3 x lineHeight x stride values as the line models
// take it: planes of blue, green and red from -1 to 1. Columns beyond width stay as they are: 0.
func normalise(picture *image.RGBA, values []float32, width, stride int) {
	picture = resize(picture, image.Pt(width, lineHeight))
	for c := range 3 {
		for y := range lineHeight {
			for x := range width {
				values[(c*lineHeight+y)*stride+x] = float32(picture.Pix[picture.PixOffset(x, y)+2-c])/127.5 - 1
			}
		}
	}
}

// warp returns the region of picture as an upright picture of the given size. Beyond its edges the picture goes on as
// it ends.
func warp(picture *image.RGBA, quad Quad, size image.Point) *image.RGBA {
	project := projection(quad)
	flat := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			from := project((float64(x)+0.5)/float64(size.X), (float64(y)+0.5)/float64(size.Y))
			sample(picture, from, flat.Pix[flat.PixOffset(x, y):][:4])
		}
	}
	return flat
}

// projection returns the projective map of the unit square onto quad.
//
// Source: P. Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989, section 2.2.3.
func projection(q Quad) func(u, v float64) Point {
	d1, d2 := q[1].sub(q[2]), q[3].sub(q[2])
	sum := q[0].sub(q[1]).add(q[2]).sub(q[3])
	g, h := 0.0, 0.0
	if det := d1.cross(d2); det != 0 {
		g, h = sum.cross(d2)/det, d1.cross(sum)/det
	}
	a, b := q[1].times(1+g).sub(q[0]), q[3].times(1+h).sub(q[0])
	return func(u, v float64) Point {
		return a.times(u).add(b.times(v)).add(q[0]).times(1 / (1 + g*u + h*v))
	}
}

// sample writes the colour of picture at p, between four pixels, to pixel.
func sample(picture *image.RGBA, p Point, pixel []byte) {
	x, y := math.Floor(p.X-0.5), math.Floor(p.Y-0.5)
	fx, fy := p.X-0.5-x, p.Y-0.5-y
	edge := picture.Rect.Max
	column := func(x float64) int { return int(max(0, min(float64(edge.X-1), x))) }
	row := func(y float64) int { return int(max(0, min(float64(edge.Y-1), y))) }
	topLeft, topRight := picture.PixOffset(column(x), row(y)), picture.PixOffset(column(x+1), row(y))
	lowLeft, lowRight := picture.PixOffset(column(x), row(y+1)), picture.PixOffset(column(x+1), row(y+1))
	for c := range pixel {
		top := float64(picture.Pix[topLeft+c])*(1-fx) + float64(picture.Pix[topRight+c])*fx
		low := float64(picture.Pix[lowLeft+c])*(1-fx) + float64(picture.Pix[lowRight+c])*fx
		pixel[c] = byte(math.Round(top*(1-fy) + low*fy))
	}
}

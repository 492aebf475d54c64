package demo

import (
	"image"
	"image/color"
	"math"
)

// Draw returns a copy of picture with a frame around every line of text; a thick dot marks where its reading begins.
func (t Text) Draw(picture *image.RGBA) *image.RGBA {
	c := newCanvas(picture, color.RGBA{R: 220, A: 255})
	for _, l := range t.Lines {
		c.frame(l.Box)
		c.dot(l.Box[0], 2*c.pen)
	}
	return c.picture
}

// Draw returns a copy of picture with a frame around every face and a dot on each of its six points.
func (f Faces) Draw(picture *image.RGBA) *image.RGBA {
	c := newCanvas(picture, color.RGBA{G: 200, A: 255})
	for _, face := range f.Faces {
		c.frame(Quad{face.Low, {face.High.X, face.Low.Y}, face.High, {face.Low.X, face.High.Y}})
		for _, p := range []Point{face.LeftEye, face.RightEye, face.Nose, face.Mouth, face.LeftEar, face.RightEar} {
			c.dot(p, 2*c.pen)
		}
	}
	return c.picture
}

// canvas is a picture that is drawn on.
type canvas struct {
	picture *image.RGBA
	ink     color.RGBA
	pen     float64 // half the width of a line, in pixels
}

func newCanvas(picture *image.RGBA, ink color.RGBA) *canvas {
	drawn := &image.RGBA{Pix: append([]byte{}, picture.Pix...), Stride: picture.Stride, Rect: picture.Rect}
	return &canvas{picture: drawn, ink: ink, pen: max(1, float64(max(picture.Rect.Dx(), picture.Rect.Dy()))/600)}
}

func (c *canvas) frame(q Quad) {
	for i, from := range q {
		c.stroke(from, q[(i+1)%4])
	}
}

// stroke draws a line. What lies outside of the picture is left out, so its length is bounded by the picture's.
func (c *canvas) stroke(from, to Point) {
	size := Point{float64(c.picture.Rect.Dx()), float64(c.picture.Rect.Dy())}
	along := to.sub(from)
	first, last := 0.0, 1.0
	for _, axis := range [][3]float64{{from.X, along.X, size.X}, {from.Y, along.Y, size.Y}} {
		if axis[1] == 0 {
			continue
		}
		a, b := (-c.pen-axis[0])/axis[1], (axis[2]+c.pen-axis[0])/axis[1]
		first, last = max(first, min(a, b)), min(last, max(a, b))
	}
	steps := math.Ceil((last - first) * along.length())
	for i := 0.0; i <= steps; i++ {
		c.dot(from.add(along.times(first+(last-first)*i/max(1, steps))), c.pen)
	}
}

// dot draws a disc.
func (c *canvas) dot(at Point, radius float64) {
	bounds := c.picture.Rect
	within := func(v float64, limit int) int { return int(max(0, min(float64(limit-1), v))) }
	for y := within(at.Y-radius, bounds.Max.Y); y <= within(at.Y+radius, bounds.Max.Y); y++ {
		for x := within(at.X-radius, bounds.Max.X); x <= within(at.X+radius, bounds.Max.X); x++ {
			if math.Hypot(float64(x)-at.X, float64(y)-at.Y) <= radius {
				c.picture.SetRGBA(x, y, c.ink)
			}
		}
	}
}

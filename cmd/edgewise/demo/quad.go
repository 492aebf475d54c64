package demo

import (
	"encoding/json"
	"math"
)

// Point is a place in a picture, in pixels from its top left corner.
type Point struct{ X, Y float64 }

// MarshalJSON writes the point as [x,y], rounded to a tenth of a pixel.
func (p Point) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]float64{math.Round(p.X*10) / 10, math.Round(p.Y*10) / 10})
}

// pointOf reads a point from two values in a row.
func pointOf(values []float32) Point { return Point{float64(values[0]), float64(values[1])} }

func (p Point) add(q Point) Point     { return Point{p.X + q.X, p.Y + q.Y} }
func (p Point) sub(q Point) Point     { return Point{p.X - q.X, p.Y - q.Y} }
func (p Point) times(f float64) Point { return Point{p.X * f, p.Y * f} }
func (p Point) length() float64       { return math.Hypot(p.X, p.Y) }
func (p Point) turned(a float64) Point {
	s, c := math.Sincos(a)
	return Point{p.X*c - p.Y*s, p.X*s + p.Y*c}
}
func middle(p, q Point) Point { return p.add(q).times(0.5) }

// Quad is a four-cornered region, clockwise as one sees it, beginning at the top left corner of what is in it: for a
// line of text the corner above its first letter, however the line is turned.
type Quad [4]Point

// width is the length of the longer of the top and bottom sides.
func (q Quad) width() float64 { return max(q[1].sub(q[0]).length(), q[2].sub(q[3]).length()) }

// height is the length of the longer of the left and right sides.
func (q Quad) height() float64 { return max(q[3].sub(q[0]).length(), q[2].sub(q[1]).length()) }

// rotated returns the same region with corner n as the first one.
func (q Quad) rotated(n int) Quad { return Quad{q[n%4], q[(n+1)%4], q[(n+2)%4], q[(n+3)%4]} }

// angle is the direction from left to right in radians, 0 for level, positive when it goes down.
func (q Quad) angle() float64 {
	along := middle(q[1], q[2]).sub(middle(q[0], q[3]))
	return math.Atan2(along.Y, along.X)
}

// bounds returns the smallest upright rectangle around q.
func (q Quad) bounds() (low, high Point) {
	low, high = q[0], q[0]
	for _, p := range q[1:] {
		low = Point{min(low.X, p.X), min(low.Y, p.Y)}
		high = Point{max(high.X, p.X), max(high.Y, p.Y)}
	}
	return low, high
}

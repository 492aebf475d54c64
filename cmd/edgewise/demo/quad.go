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

// UnmarshalJSON reads [x,y].
func (p *Point) UnmarshalJSON(data []byte) error {
	var xy [2]float64
	if err := json.Unmarshal(data, &xy); err != nil {
		return err
	}
	p.X, p.Y = xy[0], xy[1]
	return nil
}

func (p Point) add(q Point) Point     { return Point{p.X + q.X, p.Y + q.Y} }
func (p Point) sub(q Point) Point     { return Point{p.X - q.X, p.Y - q.Y} }
func (p Point) times(f float64) Point { return Point{p.X * f, p.Y * f} }
func (p Point) dot(q Point) float64   { return p.X*q.X + p.Y*q.Y }
func (p Point) cross(q Point) float64 { return p.X*q.Y - p.Y*q.X }
func (p Point) length() float64       { return math.Hypot(p.X, p.Y) }
func (p Point) turned(a float64) Point {
	s, c := math.Sincos(a)
	return Point{p.X*c - p.Y*s, p.X*s + p.Y*c}
}

func (p Point) within(w, h int) Point { return Point{clamp(p.X, float64(w)), clamp(p.Y, float64(h))} }
func clamp(v, limit float64) float64  { return max(0, min(limit, v)) }
func middle(p, q Point) Point         { return p.add(q).times(0.5) }

// Quad is a four-cornered region, clockwise as one sees it, beginning at the top left corner of what is in it: for a
// line of text the corner above its first letter, however the line is turned.
type Quad [4]Point

// Width is the length of the longer of the top and bottom sides.
func (q Quad) Width() float64 { return max(q[1].sub(q[0]).length(), q[2].sub(q[3]).length()) }

// Height is the length of the longer of the left and right sides.
func (q Quad) Height() float64 { return max(q[3].sub(q[0]).length(), q[2].sub(q[1]).length()) }

// Center is the mean of the corners.
func (q Quad) Center() Point { return middle(middle(q[0], q[2]), middle(q[1], q[3])) }

// Angle is the direction from left to right in radians, 0 for level, positive when it goes down.
func (q Quad) Angle() float64 {
	along := middle(q[1], q[2]).sub(middle(q[0], q[3]))
	return math.Atan2(along.Y, along.X)
}

// rotated returns the same region with corner n as the first one.
func (q Quad) rotated(n int) Quad {
	return Quad{q[n%4], q[(n+1)%4], q[(n+2)%4], q[(n+3)%4]}
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

// rectangle is a rectangle at any angle.
type rectangle struct {
	center Point
	along  Point   // unit vector of the sides counted by width
	width  float64 // along
	height float64 // across
}

// minimumRectangle returns the rectangle of the smallest area around points, none of which may be missing. One side of
// it always lies on a side of their convex hull.
func minimumRectangle(points []Point) rectangle {
	hull := convexHull(points)
	best := rectangle{center: hull[0], along: Point{1, 0}}
	smallest := math.Inf(1)
	for i, p := range hull {
		side := hull[(i+1)%len(hull)].sub(p)
		if side.length() == 0 {
			continue
		}
		fitted := fitRectangle(hull, side.times(1/side.length()))
		if area := fitted.width * fitted.height; area < smallest {
			best, smallest = fitted, area
		}
	}
	return best
}

// fitRectangle returns the rectangle around points that has sides along the unit vector.
func fitRectangle(points []Point, along Point) rectangle {
	across := Point{-along.Y, along.X}
	low, high := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, p := range points {
		u, v := p.dot(along), p.dot(across)
		low = Point{min(low.X, u), min(low.Y, v)}
		high = Point{max(high.X, u), max(high.Y, v)}
	}
	mid := middle(low, high)
	return rectangle{
		center: along.times(mid.X).add(across.times(mid.Y)),
		along:  along, width: high.X - low.X, height: high.Y - low.Y,
	}
}

// grown returns the rectangle with every side moved outwards by d.
func (r rectangle) grown(d float64) rectangle {
	r.width += 2 * d
	r.height += 2 * d
	return r
}

// quad returns the corners. The first is the upper one of the two on the left, as PP-OCR has it: right for lines that
// are turned by less than 45 degrees.
func (r rectangle) quad() Quad {
	u, v := r.along.times(r.width/2), Point{-r.along.Y, r.along.X}.times(r.height/2)
	q := Quad{
		r.center.sub(u).sub(v), r.center.add(u).sub(v),
		r.center.add(u).add(v), r.center.sub(u).add(v),
	}
	first := 0
	for i := range q {
		if q[i].X+q[i].Y < q[first].X+q[first].Y {
			first = i
		}
	}
	return q.rotated(first)
}

// convexHull returns the corners of the convex hull in order, by Andrew's monotone chain. points is sorted by X, then
// Y.
func convexHull(points []Point) []Point {
	hull := make([]Point, 0, 2*len(points))
	turn := func(p Point, floor int) {
		for len(hull) >= floor+2 && hull[len(hull)-1].sub(hull[len(hull)-2]).cross(p.sub(hull[len(hull)-1])) <= 0 {
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	for _, p := range points {
		turn(p, 0)
	}
	floor := len(hull) - 1
	for i := len(points) - 2; i >= 0; i-- {
		turn(points[i], floor)
	}
	if len(hull) > 1 {
		hull = hull[:len(hull)-1]
	}
	return hull
}

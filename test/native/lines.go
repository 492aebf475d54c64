package native

import (
	"image"
	"math"
)

// Point is a place in a picture, in pixels.
type Point struct{ X, Y float64 }

// Quad is a region: its corners, clockwise from the top left one.
type Quad [4]Point

// Lines cuts lines of text out of a picture file, as ocr_lines does with its defaults.
type Lines struct {
	picture    Picture
	r          resampler
	flat       Picture
	values     []float32
	lines      []Picture
	line, head []float32
}

// Quads reads regions as ocr_regions writes them: eight numbers each.
func Quads(corners []float32) []Quad {
	quads := make([]Quad, len(corners)/8)
	for i := range quads {
		for k := range 4 {
			quads[i][k] = Point{float64(corners[8*i+2*k]), float64(corners[8*i+2*k+1])}
		}
	}
	return quads
}

const (
	lineHeight = 48
	lineWidth  = 320 // at least
	lineMost   = 3200
	headWidth  = 192
	headSpan   = 384
)

// Cut returns the lines, FP32 [n,3,48,width], width being that of the widest, and the middle of each, FP32 [n,3,48,192]. turned
// holds how sure it is of each line that it is upright, and that it stands on its head; nil: all are upright.
func (l *Lines) Cut(file []byte, quads []Quad, turned []float32) (line, head []float32, width int, err error) {
	if err := l.picture.Decode(file); err != nil {
		return nil, nil, 0, err
	}
	for len(l.lines) < len(quads) {
		l.lines = append(l.lines, Picture{})
	}
	width = lineWidth
	for i, q := range quads {
		l.cut(q, &l.lines[i])
		if turned != nil && turned[2*i+1] > 0.9 {
			l.lines[i].turn()
		}
		width = max(width, l.lines[i].Width)
	}
	l.line, l.head = grown(l.line, len(quads)*3*lineHeight*width), grown(l.head, len(quads)*3*lineHeight*headWidth)
	clear(l.line)
	clear(l.head)
	for i := range quads {
		p := &l.lines[i]
		l.r.resample(p, p.whole(), p.Width, lineHeight, p.whole(), signed(l.line[i*3*lineHeight*width:], width))
		span := min(p.Width, headSpan)
		beside, columns := (p.Width-span)/2, min(span, headWidth)
		l.r.resample(p, image.Rect(beside, 0, beside+span, lineHeight), columns, lineHeight, image.Rect(0, 0, columns, lineHeight), signed(l.head[i*3*lineHeight*headWidth:], headWidth))
	}
	return l.line, l.head, width, nil
}

// signed is the target of planes of blue, green and red from -1 to 1.
func signed(data []float32, width int) target {
	to := planar(data, width, lineHeight).normalised([3]float32{127.5, 127.5, 127.5}, [3]float32{127.5, 127.5, 127.5})
	to.reverse = true
	return to
}

// cut makes a line of a region: upright, at the height of the models.
func (l *Lines) cut(q Quad, line *Picture) {
	high := max(distance(q[0], q[3]), distance(q[1], q[2]))
	wide := max(distance(q[0], q[1]), distance(q[3], q[2]))
	if high >= 1.5*wide {
		q = Quad{q[1], q[2], q[3], q[0]}
		wide, high = high, wide
	}
	width, height := max(1, math.Round(wide)), max(1, math.Round(high))
	l.flat = Picture{int(width), int(height), grown(l.flat.Pixels, 3*int(width)*int(height))}
	l.flat.warp(&l.picture, q)
	*line = Picture{min(lineMost, int(math.Ceil(lineHeight*width/height))), lineHeight, line.Pixels}
	line.Pixels = grown(line.Pixels, 3*line.Width*line.Height)
	l.values = grown(l.values, len(line.Pixels))
	to := interleaved(l.values, line.Width).normalised([3]float32{}, [3]float32{1, 1, 1})
	l.r.resample(&l.flat, l.flat.whole(), line.Width, lineHeight, line.whole(), to)
	for i, v := range l.values {
		line.Pixels[i] = byte(v)
	}
}

func distance(a, b Point) float64 { return math.Hypot(a.X-b.X, a.Y-b.Y) }

// warp fills p with what a quad of another picture shows (Heckbert 1989, 2.2.3).
func (p *Picture) warp(from *Picture, q Quad) {
	sub := func(a, b Point) Point { return Point{a.X - b.X, a.Y - b.Y} }
	cross := func(a, b Point) float64 { return a.X*b.Y - a.Y*b.X }
	d1, d2 := sub(q[1], q[2]), sub(q[3], q[2])
	sum := Point{q[0].X - q[1].X + q[2].X - q[3].X, q[0].Y - q[1].Y + q[2].Y - q[3].Y}
	g, h := 0.0, 0.0
	if det := cross(d1, d2); det != 0 {
		g, h = cross(sum, d2)/det, cross(d1, sum)/det
	}
	a := Point{q[1].X*(1+g) - q[0].X, q[1].Y*(1+g) - q[0].Y}
	b := Point{q[3].X*(1+h) - q[0].X, q[3].Y*(1+h) - q[0].Y}
	out := p.Pixels
	for y := range p.Height {
		v := (float64(y) + 0.5) / float64(p.Height)
		for x := range p.Width {
			u := (float64(x) + 0.5) / float64(p.Width)
			w := 1 / (1 + g*u + h*v)
			from.sample((a.X*u+b.X*v+q[0].X)*w, (a.Y*u+b.Y*v+q[0].Y)*w, out)
			out = out[3:]
		}
	}
}

// sample writes the colour at a place between four pixels. Beyond its edges the picture goes on as it ends.
func (p *Picture) sample(x, y float64, pixel []byte) {
	left, top := math.Floor(x-0.5), math.Floor(y-0.5)
	fx, fy := x-0.5-left, y-0.5-top
	column := func(v float64) int { return 3 * int(max(0, min(float64(p.Width-1), v))) }
	row := func(v float64) int { return 3 * p.Width * int(max(0, min(float64(p.Height-1), v))) }
	x0, x1, y0, y1 := column(left), column(left+1), row(top), row(top+1)
	pixel = pixel[:3]
	for c := range pixel {
		above := float64(p.Pixels[y0+x0+c])*(1-fx) + float64(p.Pixels[y0+x1+c])*fx
		below := float64(p.Pixels[y1+x0+c])*(1-fx) + float64(p.Pixels[y1+x1+c])*fx
		pixel[c] = byte(above*(1-fy) + below*fy + 0.5)
	}
}

// turn turns a picture by 180 degrees.
func (p *Picture) turn() {
	for i, k := 0, len(p.Pixels)-3; i < k; i, k = i+3, k-3 {
		for c := range 3 {
			p.Pixels[i+c], p.Pixels[k+c] = p.Pixels[k+c], p.Pixels[i+c]
		}
	}
}

package demo

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"math"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// strip draws a level bar on white: its left third is red, the rest blue; seen through turn, a map of places.
func strip(size image.Point, turn func(Point) Point) *image.RGBA {
	picture := image.NewRGBA(image.Rectangle{Max: size})
	for y := range size.Y {
		for x := range size.X {
			ink := color.RGBA{255, 255, 255, 255}
			if p := turn(Point{float64(x) + 0.5, float64(y) + 0.5}); math.Abs(p.X) < 90 && math.Abs(p.Y) < 20 {
				ink = color.RGBA{B: 255, A: 255}
				if p.X < -30 {
					ink = color.RGBA{R: 255, A: 255}
				}
			}
			picture.SetRGBA(x, y, ink)
		}
	}
	return picture
}

func TestCutTurnsALineLevel(t *testing.T) {
	for _, degrees := range []float64{0, 10, -30, 90, -90} {
		angle := degrees * math.Pi / 180
		picture := strip(image.Pt(240, 240), func(p Point) Point { return p.sub(Point{120, 120}).turned(-angle) })
		l := cut(picture, rectangle{center: Point{120, 120}, along: Point{1, 0}.turned(angle), width: 180, height: 40}.quad())
		if l.picture.Rect != image.Rect(0, 0, 216, lineHeight) && l.picture.Rect != image.Rect(0, 0, 217, lineHeight) {
			t.Fatalf("%v degrees: the line is %v, want 216 columns of %d", degrees, l.picture.Rect, lineHeight)
		}
		left, right := l.picture.RGBAAt(20, 24), l.picture.RGBAAt(196, 24)
		if degrees == -90 { // read upwards: cut stands it on its head, which the direction model finds out
			left, right = right, left
		}
		if left.R < 250 || left.B > 5 || right.B < 250 || right.R > 5 {
			t.Errorf("%v degrees: the line begins %v and ends %v", degrees, left, right)
		}
	}
}

func TestCutBoundsTheWidthOfALine(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 4000, 10))
	if l := cut(picture, Quad{{0, 0}, {4000, 0}, {4000, 10}, {0, 10}}); l.width != maxLineWidth {
		t.Errorf("the line has %d columns, want %d", l.width, maxLineWidth)
	}
}

func TestTurnTwiceIsNoTurn(t *testing.T) {
	picture := strip(image.Pt(60, lineHeight), func(p Point) Point { return p })
	l := line{picture: picture, quad: Quad{{0, 0}, {60, 0}, {60, 48}, {0, 48}}}
	l.turn()
	if l.quad[0] != (Point{60, 48}) || !l.flipped {
		t.Errorf("a turned line begins at %v", l.quad[0])
	}
	if l.picture.RGBAAt(59, 47) != picture.RGBAAt(0, 0) || l.picture.RGBAAt(0, 47) != picture.RGBAAt(59, 0) {
		t.Error("the corners are not where they belong")
	}
	l.turn()
	if !bytes.Equal(l.picture.Pix, picture.Pix) || l.quad[0] != (Point{}) {
		t.Error("turned twice, the line is another one")
	}
}

func TestWarpFollowsAPerspective(t *testing.T) {
	q := Quad{{10, 10}, {110, 30}, {110, 70}, {10, 90}}
	project := projection(q)
	for i, corner := range [][2]float64{{0, 0}, {1, 0}, {1, 1}, {0, 1}} {
		if got := project(corner[0], corner[1]); !nearPoint(got, q[i], 1e-9) {
			t.Errorf("corner %d lies at %v, want %v", i, got, q[i])
		}
	}
	// The diagonals of a square meet in its middle, however one looks at it.
	if got := project(0.5, 0.5); !near((got.Y-10)*100, (got.X-10)*60, 1e-6) || !near((got.Y-90)*100, (got.X-10)*-60, 1e-6) {
		t.Errorf("the middle lies at %v", got)
	}
}

func TestNormalisePadsWithZero(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 2, lineHeight))
	for i := 0; i < len(picture.Pix); i += 4 {
		copy(picture.Pix[i:], []byte{255, 51, 0, 255})
	}
	values := make([]float32, 3*lineHeight*3)
	normalise(picture, values, 2, 3)
	for c, want := range []float32{-1, -0.6, 1} { // blue, green, red
		row := values[c*lineHeight*3:][:3]
		if !near(float64(row[0]), float64(want), 1e-6) || row[1] != row[0] || row[2] != 0 {
			t.Errorf("channel %d is %v, want %v twice and 0", c, row, want)
		}
	}
}

func TestStraightenTurnsWhatTheModelIsSureOf(t *testing.T) {
	probabilities := []float32{0.1, 0.89, 0.91, 1, 0, 0, 0, 0, 0, 0.95} // over one request
	lines := make([]*line, len(probabilities))
	for i := range lines {
		lines[i] = &line{picture: image.NewRGBA(image.Rect(0, 0, 100*(i+1), lineHeight)), width: 100 * (i + 1)}
	}
	next := 0
	b := &box{answer: func(r *edgewise.Request) ([]edgewise.Tensor, error) {
		_, shape := input(t, r, "x")
		if shape[0] > directionBatch || !shape[1:].Equal(edgewise.Shape{3, lineHeight, directionWidth}) {
			t.Errorf("a request of %v", shape)
		}
		var answer []float32
		for range shape[0] {
			answer = append(answer, 1-probabilities[next], probabilities[next])
			next++
		}
		return []edgewise.Tensor{floats("softmax_0.tmp_0", answer, shape[0], 2)}, nil
	}}
	if err := (&OCR{box: b}).straighten(context.Background(), lines); err != nil {
		t.Fatal(err)
	}
	for i, l := range lines {
		if want := probabilities[i] > flipThreshold; l.flipped != want {
			t.Errorf("line %d with %v: turned %v, want %v", i, probabilities[i], l.flipped, want)
		}
	}
}

func TestMiddleOfALongLineIsShown(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 1000, lineHeight))
	picture.SetRGBA(500, 10, color.RGBA{R: 9, A: 255})
	part := middleOf(picture, directionSpan)
	if part.Rect != image.Rect(0, 0, directionSpan, lineHeight) || part.RGBAAt(directionSpan/2, 10).R != 9 {
		t.Errorf("the part is %v and does not have the middle in its middle", part.Rect)
	}
	if middleOf(part, directionSpan) != part {
		t.Error("a line that fits was copied")
	}
}

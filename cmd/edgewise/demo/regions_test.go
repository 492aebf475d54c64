package demo

import (
	"math"
	"testing"
)

// paint marks a rectangle of a map.
func (h heat) paint(r rectangle, value float32) {
	low, high := r.grown(1).quad().bounds()
	for y := max(0, int(low.Y)); y < min(h.height, int(high.Y)+1); y++ {
		for x := max(0, int(low.X)); x < min(h.width, int(high.X)+1); x++ {
			d := Point{float64(x), float64(y)}.sub(r.center)
			if math.Abs(d.dot(r.along)) <= r.width/2 && math.Abs(d.cross(r.along)) <= r.height/2 {
				h.values[y*h.width+x] = value
			}
		}
	}
}

func newHeat(width, height int) heat {
	return heat{width: width, height: height, values: make([]float32, width*height)}
}

func TestRegionsFindRectanglesAtAnyAngle(t *testing.T) {
	for _, degrees := range []float64{0, 3, -8, 20, -44, 90} {
		h := newHeat(320, 320)
		drawn := rectangle{center: Point{160, 150}, along: Point{1, 0}.turned(degrees * math.Pi / 180), width: 200, height: 16}
		h.paint(drawn, 0.9)
		found := h.regions()
		if len(found) != 1 {
			t.Fatalf("%v degrees: found %d regions, want 1", degrees, len(found))
		}
		r := found[0]
		margin := drawn.width * drawn.height * unclipRatio / (2 * (drawn.width + drawn.height))
		long, short := max(r.width, r.height), min(r.width, r.height)
		if !nearPoint(r.center, drawn.center, 1.5) || !near(long, drawn.width+2*margin, 3) || !near(short, drawn.height+2*margin, 3) {
			t.Errorf("%v degrees: found %+v, want about %+v grown by %v", degrees, r, drawn, margin)
		}
		turn := math.Remainder(r.quad().Angle()-degrees*math.Pi/180, math.Pi/2)
		if !near(turn, 0, 0.02) {
			t.Errorf("%v degrees: found it at %v degrees", degrees, r.quad().Angle()*180/math.Pi)
		}
	}
}

func TestRegionsLeaveOutWhatIsNoText(t *testing.T) {
	level := Point{1, 0}
	for _, test := range []struct {
		name  string
		drawn rectangle
		value float32
		want  int
	}{
		{"likely enough", rectangle{Point{50, 50}, level, 60, 10}, 0.61, 1},
		{"too unlikely as a whole", rectangle{Point{50, 50}, level, 60, 10}, 0.59, 0},
		{"at the threshold", rectangle{Point{50, 50}, level, 60, 10}, textThreshold, 0},
		{"too thin", rectangle{Point{50, 50}, level, 60, 2}, 0.9, 0},
		{"one pixel", rectangle{Point{50, 50}, level, 0, 0}, 0.9, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHeat(100, 100)
			h.paint(test.drawn, test.value)
			if got := h.regions(); len(got) != test.want {
				t.Errorf("found %v, want %d regions", got, test.want)
			}
		})
	}
}

func TestRegionsThatTouchAtACornerAreOne(t *testing.T) {
	h := newHeat(100, 100)
	h.paint(rectangle{Point{25, 25}, Point{1, 0}, 20, 20}, 0.9)
	h.paint(rectangle{Point{46, 46}, Point{1, 0}, 20, 20}, 0.9)
	if got := h.regions(); len(got) != 1 {
		t.Errorf("found %d regions, want 1", len(got))
	}
	h = newHeat(100, 100)
	h.paint(rectangle{Point{25, 25}, Point{1, 0}, 20, 20}, 0.9)
	h.paint(rectangle{Point{25, 48}, Point{1, 0}, 20, 20}, 0.9)
	if got := h.regions(); len(got) != 2 {
		t.Errorf("found %d regions, want 2", len(got))
	}
}

func TestRegionsAreBounded(t *testing.T) {
	h := newHeat(320, 320) // room for 1,600 squares of 5 pixels, 3 apart
	for y := 3; y < 320; y += 8 {
		for x := 3; x < 320; x += 8 {
			h.paint(rectangle{Point{float64(x), float64(y)}, Point{1, 0}, 4, 4}, 0.9)
		}
	}
	if got := h.regions(); len(got) != maxRegions {
		t.Errorf("found %d regions, want %d", len(got), maxRegions)
	}
}

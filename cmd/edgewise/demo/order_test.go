package demo

import (
	"math"
	"slices"
	"testing"
)

// page is a set of lines, each x, y, width; all are 20 high.
type page [][3]float64

func (p page) quads(turn float64) []Quad {
	quads := make([]Quad, len(p))
	for i, l := range p {
		q := Quad{{l[0], l[1]}, {l[0] + l[2], l[1]}, {l[0] + l[2], l[1] + 20}, {l[0], l[1] + 20}}
		for k := range q {
			q[k] = q[k].turned(turn)
		}
		quads[i] = q
	}
	return quads
}

func TestReadingOrder(t *testing.T) {
	pages := map[string]page{ // in reading order
		"lines":                   {{40, 0, 300}, {40, 40, 200}, {40, 80, 250}},
		"words beside each other": {{40, 2, 100}, {200, 0, 100}, {400, 3, 100}, {40, 50, 400}},
		"a list of prices": {
			{40, 0, 90},
			{300, 0, 50},
			{40, 30, 150},
			{300, 31, 50},
			{40, 60, 100},
			{300, 62, 50},
			{40, 90, 90},
			{300, 90, 50},
		},
		"two columns": {
			{40, 0, 300},
			{40, 30, 280},
			{40, 60, 290},
			{400, 0, 300},
			{400, 30, 280},
			{400, 60, 290},
		},
		"two columns under a title": {
			{40, 0, 600},
			{40, 60, 300},
			{40, 90, 280},
			{40, 120, 290},
			{40, 150, 290},
			{400, 60, 300},
			{400, 90, 280},
			{400, 120, 290},
		},
		"one line":     {{40, 0, 300}},
		"an empty one": {},
	}
	for name, p := range pages {
		for _, degrees := range []float64{0, 4, -7, 90, 180, 270} {
			t.Run(name, func(t *testing.T) {
				quads := p.quads(degrees * math.Pi / 180)
				shuffled := make([]Quad, len(quads))
				for i := range quads {
					shuffled[i] = quads[(i*5+3)%len(quads)] // no length here is a multiple of 5
				}
				var got []int
				for _, n := range readingOrder(linesAt(shuffled)) {
					got = append(got, (n*5+3)%len(quads))
				}
				if !slices.IsSorted(got) || len(got) != len(quads) {
					t.Errorf("turned by %v degrees: read as %v", degrees, got)
				}
			})
		}
	}
}

func TestPageAngleIgnoresTheOddLine(t *testing.T) {
	quads := append(page{{0, 0, 300}, {0, 40, 300}, {0, 80, 300}}.quads(0.1), page{{0, 0, 50}}.quads(math.Pi)...)
	if got := pageAngle(linesAt(quads)); math.Abs(got-0.1) > 1e-9 {
		t.Errorf("the page is turned by %v, want 0.1", got)
	}
}

func linesAt(quads []Quad) []TextLine {
	lines := make([]TextLine, len(quads))
	for i, q := range quads {
		lines[i].Box = q
	}
	return lines
}

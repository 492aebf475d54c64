package demo

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMinimumRectangleOfARectangleIsThatRectangle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		angle := rapid.Float64Range(-math.Pi/4+0.01, math.Pi/4-0.01).Draw(t, "angle")
		width := rapid.Float64Range(20, 500).Draw(t, "width")
		height := rapid.Float64Range(5, 19).Draw(t, "height")
		want := rectangle{center: Point{300, 200}, along: Point{1, 0}.turned(angle), width: width, height: height}
		corners := want.quad()
		points := append([]Point{want.center}, corners[:]...)
		slices.SortFunc(points, func(p, q Point) int {
			if p.X < q.X || p.X == q.X && p.Y < q.Y {
				return -1
			}
			return 1
		})
		got := minimumRectangle(points).quad()
		for i := range got {
			if !nearPoint(got[i], corners[i], 1e-6) {
				t.Fatalf("got %v, want %v", got, corners)
			}
		}
	})
}

func TestQuadBeginsAtTheTopLeftOfTheText(t *testing.T) {
	for _, degrees := range []float64{-40, -10, 0, 10, 40} {
		angle := degrees * math.Pi / 180
		q := rectangle{center: Point{100, 100}, along: Point{1, 0}.turned(angle), width: 80, height: 10}.quad()
		if !near(q.Angle(), angle, 1e-9) || !near(q.Width(), 80, 1e-9) || !near(q.Height(), 10, 1e-9) {
			t.Errorf("%v degrees: angle %v, %v x %v", degrees, q.Angle(), q.Width(), q.Height())
		}
	}
}

func TestMinimumRectangleOfOnePointIsEmpty(t *testing.T) {
	r := minimumRectangle([]Point{{5, 6}})
	if r.width != 0 || r.height != 0 || r.center != (Point{5, 6}) {
		t.Errorf("got %+v", r)
	}
}

func TestConvexHullLeavesOutWhatIsInside(t *testing.T) {
	hull := convexHull([]Point{{0, 0}, {0, 2}, {1, 1}, {2, 0}, {2, 1}, {2, 2}})
	if len(hull) != 4 {
		t.Errorf("the hull of a square is %v", hull)
	}
}

func TestPointsAreWrittenAsPairs(t *testing.T) {
	data, err := json.Marshal(Point{1.26, -3})
	if err != nil || string(data) != "[1.3,-3]" {
		t.Errorf("got %s, %v", data, err)
	}
	var p Point
	if err := json.Unmarshal([]byte("[4,5.5]"), &p); err != nil || p != (Point{4, 5.5}) {
		t.Errorf("read %v, %v", p, err)
	}
	if err := json.Unmarshal([]byte(`"x"`), &p); err == nil {
		t.Error("a string was read as a point")
	}
}

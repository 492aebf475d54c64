package demo

import (
	"context"
	"encoding/json"
	"image"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestAnchorsAreThoseOfTheModel(t *testing.T) {
	all := anchors()
	if len(all) != 896 {
		t.Fatalf("%d anchors, want 896", len(all))
	}
	for i, want := range map[int]Point{
		0: {0.5 / 16, 0.5 / 16}, 1: {0.5 / 16, 0.5 / 16}, 2: {1.5 / 16, 0.5 / 16}, 32: {0.5 / 16, 1.5 / 16}, 511: {15.5 / 16, 15.5 / 16},
		512: {0.5 / 8, 0.5 / 8}, 517: {0.5 / 8, 0.5 / 8}, 518: {1.5 / 8, 0.5 / 8}, 895: {7.5 / 8, 7.5 / 8},
	} {
		if all[i] != want {
			t.Errorf("anchor %d lies at %v, want %v", i, all[i], want)
		}
	}
}

func TestCandidatesAreDecoded(t *testing.T) {
	scores := []float32{0, 2, -500, float32(math.NaN()), 50, 50}
	values := make([]float32, len(scores)*faceValues)
	for i := range faceValues {
		values[faceValues+i] = float32(i)
		values[4*faceValues+i] = float32(math.Inf(1))
	}
	places := []Point{{}, {0.5, 0.25}, {}, {}, {}, {0.1, 0.1}}
	got := candidates(places, scores, values, 0.6)
	if len(got) != 2 {
		t.Fatalf("%d candidates, want 2: the second and the last", len(got))
	}
	c := got[0]
	if !near(c.score, 1/(1+math.Exp(-2)), 1e-9) || c.center() != (Point{0.5, 0.25 + 1.0/256}) || c.size() != (Point{2.0 / 256, 3.0 / 256}) {
		t.Errorf("decoded as %+v", c)
	}
	if c.points[7] != (Point{0.5 + 14.0/256, 0.25 + 15.0/256}) {
		t.Errorf("the last point lies at %v", c.points[7])
	}
}

func square(score, x, y, side float64) candidate {
	c := candidate{score: score}
	for k := range c.points {
		c.points[k] = Point{x, y}
	}
	c.points[sizeIndex] = Point{side, side}
	return c
}

func TestMergeWeighsOverlappingCandidatesByScore(t *testing.T) {
	got := merge([]candidate{square(0.6, 13, 10, 10), square(0.7, 50, 50, 10), square(0.9, 10, 10, 10)})
	if len(got) != 2 || got[0].score != 0.9 || got[1].score != 0.7 {
		t.Fatalf("got %+v", got)
	}
	if want := (10*0.9 + 13*0.6) / 1.5; !near(got[0].center().X, want, 1e-9) || !near(got[0].points[5].X, want, 1e-9) ||
		got[0].size() != (Point{10, 10}) {
		t.Errorf("merged as %+v, want x %v", got[0], want)
	}
}

func TestOverlapIsIntersectionOverUnion(t *testing.T) {
	for _, test := range []struct {
		a, b candidate
		want float64
	}{
		{square(1, 0, 0, 2), square(1, 0, 0, 2), 1},
		{square(1, 0, 0, 2), square(1, 1, 0, 2), 1.0 / 3},
		{square(1, 0, 0, 2), square(1, 2, 0, 2), 0},
		{square(1, 0, 0, 2), square(1, 5, 5, 2), 0},
		{square(1, 0, 0, 2), square(1, 0, 0, 1), 0.25},
		{square(1, 0, 0, 0), square(1, 0, 0, 0), 0},
	} {
		if got := overlap(test.a, test.b); !near(got, test.want, 1e-9) {
			t.Errorf("%v and %v overlap by %v, want %v", test.a.points[:2], test.b.points[:2], got, test.want)
		}
	}
}

func TestViewShowsThePictureInTheMiddleAndMapsBack(t *testing.T) {
	picture := bars(image.Pt(512, 256))
	v := wholeView(picture.Rect.Size())
	values := decodeFloats(v.input(picture).Data)
	for y, want := range map[int]float32{0: -1, 63: -1, 64: 1, 191: 1, 192: -1, 255: -1} {
		if got := values[3*(y*faceSide+128)]; got != want {
			t.Errorf("row %d is %v, want %v", y, got, want)
		}
	}
	c := v.place(square(1, 0.5, 0.5, 0.25))
	if !nearPoint(c.center(), Point{256, 128}, 1e-9) || !nearPoint(c.size(), Point{128, 128}, 1e-9) {
		t.Errorf("the middle is placed at %v with size %v", c.center(), c.size())
	}
	near := closeView(square(1, 0, 0, 40))
	if near.side != 100 || near.low != (Point{-50, -50}) {
		t.Errorf("the view of a face at the corner is %+v", near)
	}
	values = decodeFloats(near.input(picture).Data)
	if values[0] != -1 || values[3*(200*faceSide+200)] != 1 {
		t.Error("beyond the picture there is no black, or within it no white")
	}
	if got := (view{low: Point{9000, 9000}, side: 10}).input(picture); len(got.Data) != 4*3*faceSide*faceSide {
		t.Error("a view beside the picture is none")
	}
}

// faceBox sees, in the n-th look, the faces listed: score, and center and side as fractions of the view.
func faceBox(looks ...[][4]float64) *box {
	b := &box{}
	b.answer = func(*edgewise.Request) ([]edgewise.Tensor, error) {
		scores, values := make([]float32, fineCount+coarseCount), make([]float32, (fineCount+coarseCount)*faceValues)
		for i := range scores {
			scores[i] = -100
		}
		for i, f := range looks[len(b.requests)-1] {
			at := fineCount - 1 + i // the last fine anchor, then coarse ones, so that both halves are read
			anchor := anchors()[at]
			scores[at] = float32(-math.Log(1/f[0] - 1))
			for k := range faceValues {
				values[at*faceValues+k] = float32((f[1+k%2] - []float64{anchor.X, anchor.Y}[k%2]) * faceSide)
			}
			values[at*faceValues+2], values[at*faceValues+3] = float32(f[3]*faceSide), float32(f[3]*faceSide)
		}
		return []edgewise.Tensor{
			floats("Identity_3:0", values[fineCount*faceValues:], 1, coarseCount, faceValues),
			floats("Identity_2:0", values[:fineCount*faceValues], 1, fineCount, faceValues),
			floats("Identity_1:0", scores[fineCount:], 1, coarseCount, 1),
			floats("Identity:0", scores[:fineCount], 1, fineCount, 1),
		}, nil
	}
	return b
}

func TestFindLooksTwice(t *testing.T) {
	b := faceBox(
		// in the whole: the last is too unlikely
		[][4]float64{{0.55, 0.25, 0.5, 0.1}, {0.9, 0.75, 0.5, 0.1}, {0.6, 0.5, 0.25, 0.05}, {0.4, 0.1, 0.1, 0.1}},
		[][4]float64{{0.6, 0.5, 0.5, 0.4}},                        // the surest first: not sure enough at close range
		[][4]float64{{0.95, 0.1, 0.1, 0.1}, {0.7, 0.5, 0.5, 0.4}}, // another face beside the one looked at
		[][4]float64{{0.8, 0.5, 0.55, 0.4}},
	)
	faces, err := NewFaceDetector(b, "face").Find(context.Background(), bars(image.Pt(1000, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.requests) != 4 || len(faces.Faces) != 2 {
		t.Fatalf("%d requests, faces %v, want 4 and two faces", len(b.requests), faces)
	}
	first, second := faces.Faces[0], faces.Faces[1]
	if !near(first.Score, 0.8, 1e-6) || !near(second.Score, 0.7, 1e-6) {
		t.Fatalf("scores %v and %v, want 0.8 and 0.7", first.Score, second.Score)
	}
	// A look at close range shows 2.5 sides of the face: what fills 0.4 of it is as large as the face seen before.
	if !nearPoint(first.Nose, Point{250, 512.5}, 0.1) || !nearPoint(first.High.sub(first.Low), Point{100, 100}, 0.1) {
		t.Errorf("the first face is %+v, want it around 250,512.5", first)
	}
	if !nearPoint(second.Nose, Point{500, 250}, 0.1) || !nearPoint(second.High.sub(second.Low), Point{50, 50}, 0.1) {
		t.Errorf("the second face is %+v, want it around 500,250", second)
	}
}

func TestFindBoundsItsLooks(t *testing.T) {
	looks := make([][][4]float64, 1+maxFaces)
	for i := range maxFaces + 20 {
		looks[0] = append(looks[0], [4]float64{0.9, float64(i%16)/16 + 0.03, float64(i/16)/16 + 0.03, 0.05})
	}
	b := faceBox(looks...)
	if _, err := NewFaceDetector(b, "face").Find(context.Background(), bars(image.Pt(100, 100))); err != nil {
		t.Fatal(err)
	}
	if len(b.requests) != 1+maxFaces {
		t.Errorf("%d requests, want %d", len(b.requests), 1+maxFaces)
	}
}

func TestFindPassesTheBoxesErrorOn(t *testing.T) {
	for failing := range 2 {
		good := faceBox([][4]float64{{0.9, 0.5, 0.5, 0.1}})
		b := &box{}
		b.answer = func(r *edgewise.Request) ([]edgewise.Tensor, error) {
			if len(b.requests) == failing+1 {
				return nil, edgewise.Errorf("test", edgewise.Unavailable, "not ready")
			}
			good.requests = append(good.requests, r)
			return good.answer(r)
		}
		_, err := NewFaceDetector(b, "face").Find(context.Background(), bars(image.Pt(100, 100)))
		if err == nil || edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("request %d fails: got %v, want unavailable", failing, err)
		}
	}
}

func TestFacesArePrintedAndWritten(t *testing.T) {
	face := square(0.875, 100, 80, 40).face()
	faces := Faces{Faces: []Face{face}}
	if got, want := faces.String(), "face  0.88  at 80,60 size 40x40  eyes at 100,80\n"; got != want {
		t.Errorf("printed as %q, want %q", got, want)
	}
	data, err := json.Marshal(faces)
	if err != nil || !strings.HasPrefix(string(data), `{"faces":[{"score":0.875,"low":[80,60],"high":[120,100],"left_eye":[100,80]`) {
		t.Errorf("as JSON it is %s, %v", data, err)
	}
	if got := (Faces{}).String(); got != "no face found\n" {
		t.Errorf("none is printed as %q", got)
	}
}

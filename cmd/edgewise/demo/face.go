package demo

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"

	"golang.org/x/image/draw"

	"github.com/edgewise-ai/edgewise"
)

// The settings of face detection. Thresholds of score and overlap are MediaPipe's for the full-range ("back camera")
// BlazeFace model, except that the first look is easier to please, because every face is looked at twice.
//
// Source: MediaPipe, face detection graph for the back camera.
const (
	faceSide       = 256  // pixels a side of the model's input
	firstThreshold = 0.5  // the score that a face must have in the whole picture
	faceThreshold  = 0.65 // and at close range
	closeRange     = 2.5  // sides of the face that a look at close range shows
	faceOverlap    = 0.3  // intersection over union from which two boxes mean the same face
	maxFaces       = 100  // looked at at close range, the surest first
)

// FaceDetector finds faces in pictures. It is safe for concurrent use.
type FaceDetector struct {
	box     edgewise.Inferer
	model   string
	anchors []Point
}

// NewFaceDetector returns a detector that asks box for model.
func NewFaceDetector(box edgewise.Inferer, model string) *FaceDetector {
	return &FaceDetector{box: box, model: model, anchors: anchors()}
}

// Faces are the faces in a picture, the surest first.
type Faces struct {
	Faces []Face `json:"faces"`
}

// Face is one face, in the picture's pixels. Left and right are the picture's, not the person's.
type Face struct {
	Score    float64 `json:"score"`    // 0..1
	Low      Point   `json:"low"`      // the box's top left corner
	High     Point   `json:"high"`     // and its bottom right one; both may lie outside of the picture
	LeftEye  Point   `json:"left_eye"` // the points the model finds
	RightEye Point   `json:"right_eye"`
	Nose     Point   `json:"nose"`
	Mouth    Point   `json:"mouth"`
	LeftEar  Point   `json:"left_ear"`
	RightEar Point   `json:"right_ear"`
}

// Find finds the faces in picture, whose origin is 0,0: in the whole picture first, and then each again at close
// range, which drops what only looked like a face and makes the boxes of small ones exact. That is one request, and one
// more for each of at most maxFaces faces. A picture without faces has an empty list. Errors: those of the box, and
// Invalid when another model answers.
func (d *FaceDetector) Find(ctx context.Context, picture *image.RGBA) (Faces, error) {
	found, err := d.look(ctx, picture, wholeView(picture.Rect.Size()), firstThreshold)
	if err != nil {
		return Faces{}, err
	}
	var sure []candidate
	for _, first := range found[:min(maxFaces, len(found))] {
		again, err := d.look(ctx, picture, closeView(first), faceThreshold)
		if err != nil {
			return Faces{}, err
		}
		for _, second := range again {
			if overlap(first, second) > faceOverlap {
				sure = append(sure, second)
				break
			}
		}
	}
	faces := Faces{Faces: []Face{}}
	for _, c := range merge(sure) {
		faces.Faces = append(faces.Faces, c.face())
	}
	return faces, nil
}

// look asks the model about a part of the picture. The candidates are in the picture's pixels, the surest first.
func (d *FaceDetector) look(ctx context.Context, picture *image.RGBA, v view, threshold float64) ([]candidate, error) {
	outputs, err := call(ctx, d.box, d.model, []edgewise.Tensor{v.input(picture)},
		want{"Identity:0", edgewise.Shape{1, fineCount, 1}}, want{"Identity_1:0", edgewise.Shape{1, coarseCount, 1}},
		want{"Identity_2:0", edgewise.Shape{1, fineCount, faceValues}}, want{"Identity_3:0", edgewise.Shape{1, coarseCount, faceValues}})
	if err != nil {
		return nil, err
	}
	scores := append(outputs[0].values, outputs[1].values...)
	values := append(outputs[2].values, outputs[3].values...)
	found := merge(candidates(d.anchors, scores, values, threshold))
	for i := range found {
		found[i] = v.place(found[i])
	}
	return found, nil
}

// view is the square part of a picture that the model is shown, in the picture's pixels. It may reach beyond the
// picture.
type view struct {
	low  Point
	side float64
}

func wholeView(size image.Point) view {
	side := float64(max(size.X, size.Y))
	return view{Point{(float64(size.X) - side) / 2, (float64(size.Y) - side) / 2}, side}
}

func closeView(c candidate) view {
	side := max(1, closeRange*max(c.size().X, c.size().Y))
	return view{c.center().sub(Point{side / 2, side / 2}), side}
}

// input makes the model's input, FP32 [1,256,256,3]: red, green, blue from -1 to 1, black beyond the picture.
func (v view) input(picture *image.RGBA) edgewise.Tensor {
	part := image.Rect(int(math.Floor(v.low.X)), int(math.Floor(v.low.Y)), int(math.Ceil(v.low.X+v.side)), int(math.Ceil(v.low.Y+v.side)))
	part = part.Intersect(picture.Rect)
	shown := func(x, y int) image.Point {
		p := Point{float64(x), float64(y)}.sub(v.low).times(faceSide / v.side)
		return image.Pt(int(math.Round(p.X)), int(math.Round(p.Y)))
	}
	square := image.NewRGBA(image.Rect(0, 0, faceSide, faceSide))
	target := image.Rectangle{Min: shown(part.Min.X, part.Min.Y), Max: shown(part.Max.X, part.Max.Y)}
	draw.BiLinear.Scale(square, target, picture, part, draw.Src, nil)
	values := make([]float32, 0, 3*faceSide*faceSide)
	for at := 0; at < len(square.Pix); at += 4 {
		for _, sample := range square.Pix[at : at+3] {
			values = append(values, float32(sample)/127.5-1)
		}
	}
	return floats("input:0", values, 1, faceSide, faceSide, 3)
}

// place returns a candidate of this view in the picture's pixels.
func (v view) place(c candidate) candidate {
	for k, p := range c.points {
		c.points[k] = p.times(v.side)
		if k != sizeIndex {
			c.points[k] = c.points[k].add(v.low)
		}
	}
	return c
}

// candidate is what one anchor says: center, size and six points, as fractions of the model's input until it is placed.
type candidate struct {
	score  float64
	points [faceValues / 2]Point
}

const centerIndex, sizeIndex = 0, 1 // in a candidate's points

func (c candidate) center() Point { return c.points[centerIndex] }
func (c candidate) size() Point   { return c.points[sizeIndex] }

// candidates returns the anchors that see a face, and see it somewhere.
func candidates(anchors []Point, scores, values []float32, threshold float64) []candidate {
	var found []candidate
	for i, raw := range scores {
		score := 1 / (1 + math.Exp(-float64(raw)))
		if !(score >= threshold) || !allFinite(values[i*faceValues:][:faceValues]) {
			continue
		}
		c := candidate{score: score}
		for k := range c.points {
			v := values[i*faceValues+2*k:]
			c.points[k] = Point{float64(v[0]), float64(v[1])}.times(1.0 / faceSide)
			if k != sizeIndex {
				c.points[k] = c.points[k].add(anchors[i])
			}
		}
		found = append(found, c)
	}
	return found
}

// allFinite tells whether all values are numbers of a size that a picture can have.
func allFinite(values []float32) bool {
	for _, v := range values {
		if !(math.Abs(float64(v)) < 1<<20) {
			return false
		}
	}
	return true
}

// merge makes one candidate of those that overlap with the best one: the mean of their places, weighted by score. It
// has the best one's score (weighted non-maximum suppression).
func merge(found []candidate) []candidate {
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var merged []candidate
	for len(found) > 0 {
		best := found[0]
		mean := candidate{score: best.score}
		sum := 0.0
		var rest []candidate
		for i, c := range found {
			if i > 0 && overlap(best, c) <= faceOverlap {
				rest = append(rest, c)
				continue
			}
			sum += c.score
			for k, p := range c.points {
				mean.points[k] = mean.points[k].add(p.times(c.score))
			}
		}
		for k, p := range mean.points {
			mean.points[k] = p.times(1 / sum)
		}
		merged = append(merged, mean)
		found = rest
	}
	return merged
}

// overlap is the intersection of both boxes over their union.
func overlap(a, b candidate) float64 {
	side := func(c1, s1, c2, s2 float64) float64 {
		return max(0, min(c1+s1/2, c2+s2/2)-max(c1-s1/2, c2-s2/2))
	}
	common := side(a.center().X, a.size().X, b.center().X, b.size().X) * side(a.center().Y, a.size().Y, b.center().Y, b.size().Y)
	if common == 0 {
		return 0
	}
	return common / (a.size().X*a.size().Y + b.size().X*b.size().Y - common)
}

// face names what the model's points are.
func (c candidate) face() Face {
	half := c.size().times(0.5)
	return Face{
		Score: c.score, Low: c.center().sub(half), High: c.center().add(half),
		LeftEye: c.points[2], RightEye: c.points[3], Nose: c.points[4],
		Mouth: c.points[5], LeftEar: c.points[6], RightEar: c.points[7],
	}
}

// String returns one line for each face: its score, its box, and the middle between its eyes.
func (f Faces) String() string {
	var b strings.Builder
	for _, face := range f.Faces {
		eyes := middle(face.LeftEye, face.RightEye)
		fmt.Fprintf(&b, "face  %.2f  at %.0f,%.0f size %.0fx%.0f  eyes at %.0f,%.0f\n", face.Score,
			face.Low.X, face.Low.Y, face.High.X-face.Low.X, face.High.Y-face.Low.Y, eyes.X, eyes.Y)
	}
	if len(f.Faces) == 0 {
		b.WriteString("no face found\n")
	}
	return b.String()
}

package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

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

// FindFaces finds the faces in a picture with the pipeline "faces". A picture without faces has an empty list. Errors:
// those of the box, and Invalid when another model has the pipeline's name.
func FindFaces(ctx context.Context, box edgewise.Inferer, picture edgewise.Tensor) (Faces, error) {
	faces := Faces{Faces: []Face{}}
	err := ask(ctx, box, "faces", picture, func(a *answer) {
		scores := a.floats("score", 0, 1)
		boxes, points := a.floats("box", len(scores), 4), a.floats("point", len(scores), 12)
		for i := range scores {
			at := func(k int) Point { return pointOf(points[12*i+2*k:]) }
			faces.Faces = append(faces.Faces, Face{
				Score: float64(scores[i]), Low: pointOf(boxes[4*i:]), High: pointOf(boxes[4*i+2:]),
				LeftEye: at(0), RightEye: at(1), Nose: at(2), Mouth: at(3), LeftEar: at(4), RightEar: at(5),
			})
		}
	})
	return faces, err
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

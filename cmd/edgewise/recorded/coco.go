package recorded

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/scalar"
)

// Detector names the outputs of a detector; empty: there is none.
type Detector struct{ Boxes, Classes, Scores string }

// coco is a file of annotations in the form of COCO, of which it has what an answer tells.
type coco struct {
	outputs     Detector
	Images      []cocoImage      `json:"images"`
	Annotations []cocoAnnotation `json:"annotations"`
	Categories  []cocoCategory   `json:"categories"`
}

type cocoImage struct {
	ID   int    `json:"id"`
	File string `json:"file_name"`
}

type cocoAnnotation struct {
	ID       int        `json:"id"`
	Image    int        `json:"image_id"`
	Category int        `json:"category_id"`
	Box      [4]float64 `json:"bbox"` // x, y, width, height
	Area     float64    `json:"area"`
	Crowd    int        `json:"iscrowd"`
	Score    *float64   `json:"score,omitempty"`
}

type cocoCategory struct {
	ID int `json:"id"`
}

func newCoco(outputs Detector) *coco {
	return &coco{outputs: outputs, Images: []cocoImage{}, Annotations: []cocoAnnotation{}, Categories: []cocoCategory{}}
}

// wanted tells whether the boxes are written at all.
func (c *coco) wanted() bool { return c.outputs.Boxes != "" }

// add notes the boxes of a request about a picture.
func (c *coco) add(number int, file string, e *example.Example) {
	if !c.wanted() {
		return
	}
	c.Images = append(c.Images, cocoImage{number, file})
	boxes, classes, scores := numbers(e, c.outputs.Boxes), numbers(e, c.outputs.Classes), numbers(e, c.outputs.Scores)
	for i := range len(boxes) / 4 {
		b := boxes[4*i : 4*i+4]
		a := cocoAnnotation{ID: len(c.Annotations) + 1, Image: number, Box: [4]float64{b[0], b[1], b[2] - b[0], b[3] - b[1]}}
		a.Area = a.Box[2] * a.Box[3]
		if i < len(classes) {
			a.Category = int(classes[i])
		}
		if i < len(scores) {
			a.Score = &scores[i]
		}
		if !slices.Contains(c.Categories, cocoCategory{a.Category}) {
			c.Categories = append(c.Categories, cocoCategory{a.Category})
		}
		c.Annotations = append(c.Annotations, a)
	}
}

// numbers returns the elements of an output; none where there is no such output of numbers.
func numbers(e *example.Example, output string) (list []float64) {
	at := slices.IndexFunc(e.Outputs, func(t edgewise.Tensor) bool { return t.Name == output })
	if at < 0 || e.Outputs[at].Type == edgewise.Bytes {
		return nil
	}
	t := &e.Outputs[at]
	for rest := t.Data; len(rest) > 0; rest = rest[t.Type.Size():] {
		list = append(list, scalar.Float(t.Type, rest))
	}
	return list
}

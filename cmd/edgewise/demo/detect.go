package demo

import (
	"context"
	"image"
	"math"

	"golang.org/x/image/draw"

	"github.com/edgewise-ai/edgewise"
)

const (
	detectPixels   = 960 * 960 // that a picture is reduced to for detection
	detectMultiple = 32        // both sides of the model's input are multiples of this
)

// detect returns the regions of text in picture. Regions are in the picture's pixels.
func (o *OCR) detect(ctx context.Context, picture *image.RGBA) ([]Quad, error) {
	size := picture.Rect.Size()
	reduced := detectSize(size)
	input := detectInput(picture, reduced)
	outputs, err := call(ctx, o.box, o.models.Detect, []edgewise.Tensor{input},
		want{"sigmoid_0.tmp_0", edgewise.Shape{1, 1, int64(reduced.Y), int64(reduced.X)}})
	if err != nil {
		return nil, err
	}
	found := heat{width: reduced.X, height: reduced.Y, values: outputs[0].values}.regions()
	scale := Point{float64(size.X) / float64(reduced.X), float64(size.Y) / float64(reduced.Y)}
	var quads []Quad
	for _, r := range found {
		q := r.quad()
		for i, p := range q {
			q[i] = Point{math.Round(p.X * scale.X), math.Round(p.Y * scale.Y)}.within(size.X, size.Y)
		}
		if q.Width() > minSide && q.Height() > minSide {
			quads = append(quads, q)
		}
	}
	return quads, nil
}

// detectSize returns the size of the model's input for a picture of the given size. PP-OCR bounds the longer side; to
// bound the pixels instead costs no more, and leaves the text of a long strip large enough to be found.
func detectSize(size image.Point) image.Point {
	ratio := min(1, math.Sqrt(detectPixels/(float64(size.X)*float64(size.Y))))
	side := func(n int) int {
		return max(detectMultiple, int(math.RoundToEven(float64(n)*ratio/detectMultiple))*detectMultiple)
	}
	return image.Pt(side(size.X), side(size.Y))
}

// detectInput makes the detection model's input, FP32 [1,3,H,W]: channels in the order blue, green, red, each shifted
// and scaled by the means and deviations of ImageNet, in the order they have for red, green, blue: so was it trained.
func detectInput(picture *image.RGBA, size image.Point) edgewise.Tensor {
	reduced := resize(picture, size)
	mean := [3]float32{0.485, 0.456, 0.406}
	deviation := [3]float32{0.229, 0.224, 0.225}
	plane := size.X * size.Y
	values := make([]float32, 3*plane)
	for c := range 3 {
		for i := range plane {
			values[c*plane+i] = (float32(reduced.Pix[4*i+2-c])/255 - mean[c]) / deviation[c]
		}
	}
	return floats("x", values, 1, 3, int64(size.Y), int64(size.X))
}

// resize returns picture at another size; at its own size it is picture itself, whose origin is 0,0.
func resize(picture *image.RGBA, size image.Point) *image.RGBA {
	if picture.Rect.Size() == size {
		return picture
	}
	resized := image.NewRGBA(image.Rectangle{Max: size})
	draw.BiLinear.Scale(resized, resized.Rect, picture, picture.Rect, draw.Src, nil)
	return resized
}

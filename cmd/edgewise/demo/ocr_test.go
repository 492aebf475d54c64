package demo

import (
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// ocrBox plays the three models: dark bars are text; each bar's line reads "ab"; nothing stands on its head.
func ocrBox(t *testing.T, o **OCR) *box {
	return &box{answer: func(r *edgewise.Request) ([]edgewise.Tensor, error) {
		values, shape := input(t, r, "x")
		switch r.Model.Name {
		case "detect":
			answer := make([]float32, shape[2]*shape[3])
			for i := range answer {
				if values[i] < 0 {
					answer[i] = 0.95
				}
			}
			return []edgewise.Tensor{floats("sigmoid_0.tmp_0", answer, 1, 1, shape[2], shape[3])}, nil
		case "direction":
			return []edgewise.Tensor{floats("softmax_0.tmp_0", make([]float32, 2*shape[0]), shape[0], 2)}, nil
		}
		var answer []float32
		for range shape[0] {
			answer = append(answer, spelled("-a-b-", (*o).alphabet)...)
		}
		return []edgewise.Tensor{floats("softmax_11.tmp_0", answer, shape[0], 5, int64(len((*o).alphabet)))}, nil
	}}
}

func bars(size image.Point, rectangles ...image.Rectangle) *image.RGBA {
	picture := image.NewRGBA(image.Rectangle{Max: size})
	draw.Draw(picture, picture.Rect, image.White, image.Point{}, draw.Src)
	for _, r := range rectangles {
		draw.Draw(picture, r, image.NewUniform(color.Black), image.Point{}, draw.Src)
	}
	return picture
}

func TestReadGivesLinesWithTheirPlaces(t *testing.T) {
	var o *OCR
	b := ocrBox(t, &o)
	o = NewOCR(b, OCRModels{"detect", "direction", "recognise"})
	// 1920x1000 is reduced for detection: places are those of the picture nevertheless.
	picture := bars(image.Pt(1920, 1000), image.Rect(200, 600, 800, 640), image.Rect(300, 100, 900, 140))
	text, err := o.Read(context.Background(), picture)
	if err != nil {
		t.Fatal(err)
	}
	if len(text.Lines) != 2 || text.Lines[0].Text != "ab" || !near(text.Lines[0].Confidence, 0.8, 1e-6) {
		t.Fatalf("read %v, want two lines of ab", text)
	}
	for i, want := range []Point{{600, 120}, {500, 620}} {
		if got := text.Lines[i].Box.Center(); !nearPoint(got, want, 4) {
			t.Errorf("line %d lies around %v, want %v", i, got, want)
		}
	}
	if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "0.80") {
		t.Errorf("printed as %q", got)
	}
	data, err := json.Marshal(text)
	if err != nil || !strings.HasPrefix(string(data), `{"lines":[{"text":"ab","confidence":0.8`) ||
		strings.Count(string(data), `"box":[[`) != 2 {
		t.Errorf("as JSON it is %s, %v", data, err)
	}
}

func TestReadOfAPictureWithoutTextHasNoLines(t *testing.T) {
	var o *OCR
	b := ocrBox(t, &o)
	o = NewOCR(b, OCRModels{"detect", "direction", "recognise"})
	text, err := o.Read(context.Background(), bars(image.Pt(100, 50)))
	if err != nil || len(text.Lines) != 0 || text.String() != "no text found\n" || len(b.requests) != 1 {
		t.Errorf("read %q with %d requests, %v", text, len(b.requests), err)
	}
	if data, _ := json.Marshal(text); string(data) != `{"lines":[]}` {
		t.Errorf("as JSON it is %s", data)
	}
}

func TestReadPassesTheBoxesErrorOn(t *testing.T) {
	for failing := range 3 {
		var o *OCR
		good := ocrBox(t, &o)
		b := &box{}
		b.answer = func(r *edgewise.Request) ([]edgewise.Tensor, error) {
			if len(b.requests) == failing+1 {
				return nil, edgewise.Errorf("test", edgewise.Busy, "queue full")
			}
			return good.answer(r)
		}
		o = NewOCR(b, OCRModels{"detect", "direction", "recognise"})
		_, err := o.Read(context.Background(), bars(image.Pt(320, 160), image.Rect(40, 60, 280, 90)))
		if err == nil || edgewise.KindOf(err) != edgewise.Busy {
			t.Errorf("request %d fails: got %v, want busy", failing, err)
		}
	}
}

func TestDetectSizeIsBoundedAndAMultipleOf32(t *testing.T) {
	for _, test := range []struct{ picture, want image.Point }{
		{image.Pt(640, 360), image.Pt(640, 352)},
		{image.Pt(1, 1), image.Pt(32, 32)},
		{image.Pt(960, 960), image.Pt(960, 960)},
		{image.Pt(1920, 1080), image.Pt(1280, 704)},
		{image.Pt(10000, 10000), image.Pt(960, 960)},
		{image.Pt(1900, 80), image.Pt(1888, 64)},
	} {
		if got := detectSize(test.picture); got != test.want {
			t.Errorf("a picture of %v is shown at %v, want %v", test.picture, got, test.want)
		}
	}
}

func TestDetectInputIsBlueGreenRed(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 32, 32))
	for i := 0; i < len(picture.Pix); i += 4 {
		copy(picture.Pix[i:], []byte{255, 0, 51, 255})
	}
	tensor := detectInput(picture, image.Pt(32, 32))
	if !tensor.Shape.Equal(edgewise.Shape{1, 3, 32, 32}) {
		t.Fatalf("shape %v", tensor.Shape)
	}
	values := decodeFloats(tensor.Data)
	for c, want := range []float64{(0.2 - 0.485) / 0.229, -0.456 / 0.224, (1 - 0.406) / 0.225} {
		if got := float64(values[c*32*32+17]); !near(got, want, 1e-5) {
			t.Errorf("channel %d is %v, want %v", c, got, want)
		}
	}
}

package sdk

import (
	"image"
	"math/rand/v2"
	"testing"

	"github.com/edgewise-ai/edgewise/test/native"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// TestNativeGoDoesWhatTheStepsDo holds package native, which the steps' speed is measured against, to do the same work.
func TestNativeGoDoesWhatTheStepsDo(t *testing.T) {
	for _, size := range []image.Point{{640, 480}, {300, 500}, {1920, 1080}} {
		picture := encoded(t, samples.Scene(size.X, size.Y, 7))
		file := samples.Elements("image", picture)
		in := &native.Inputs{}

		want, err := in.Classifier(picture)
		agree(t, "classifier_input", err, samples.Values(run(t, gallery(t, "classifier_input", nil), nil, file)["tensor"]), want, 1.01/57)

		want, m, err := in.Letterbox(picture)
		outputs := run(t, gallery(t, "letterbox", nil), nil, file)
		agree(t, "letterbox", err, samples.Values(outputs["tensor"]), want, 1.01/255)
		same(t, "map of letterbox", samples.Values(outputs["map"]), m[:], 1e-5, 1e-5)

		want, m, err = in.Face(picture)
		outputs = run(t, gallery(t, "face_input", nil), nil, file)
		agree(t, "face_input", err, samples.Values(outputs["tensor"]), want, 1.01/127.5)
		same(t, "map of face_input", samples.Values(outputs["map"]), m[:], 1e-5, 1e-5)

		want, _, _, err = in.Detection(picture)
		agree(t, "ocr_input", err, samples.Values(run(t, gallery(t, "ocr_input", nil), nil, file)["tensor"]), want, 1.01/255/0.224)
	}
}

// agree allows a step of 255 where a sum lies between two whole numbers.
func agree(t *testing.T, what string, err error, got, want []float32, off float64) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	same(t, what, got, want, off, off)
}

func TestNativeLinesAreThoseOfTheStep(t *testing.T) {
	picture := encoded(t, samples.Scene(640, 360, 3))
	corners := []float32{
		40, 50, 440, 50, 440, 72, 40, 72, // level
		50, 140, 470, 161, 469, 179, 49, 158, // slanted
		600, 60, 616, 60, 616, 240, 600, 240, // upright
	}
	turned := []float32{1, 0, 0, 1, 0.5, 0.5}
	line, head, width, err := (&native.Lines{}).Cut(picture, native.Quads(corners), turned)
	outputs := run(t, gallery(t, "ocr_lines", nil), nil, samples.Elements("image", picture), samples.Floats("quad", corners, 3, 4, 2), samples.Floats("turned", turned, 3, 2))
	if got := outputs["line"].Shape[3]; got != int64(width) {
		t.Fatalf("lines are %d wide, native ones %d", got, width)
	}
	agree(t, "line", err, samples.Values(outputs["line"]), line, 2.01/127.5)
	agree(t, "head", err, samples.Values(outputs["head"]), head, 2.01/127.5)
}

func TestNativeFacesAreThoseOfTheStep(t *testing.T) {
	reply := samples.Faces(rand.New(rand.NewPCG(1, 3)))
	m := [6]float32{0.4, 0.4, 0, 32, 640, 480}
	outputs := decodeFaces(t, gallery(t, "anchors", nil), "0.5", reply, samples.Floats("map", m[:], 1, 6))
	of := func(i int) []float32 { return samples.Values(reply[i]) }
	var scores, boxes []float32
	for _, f := range native.Faces([2][]float32{of(0), of(2)}, [2][]float32{of(1), of(3)}, m) {
		scores = append(scores, f.Score)
		boxes = append(boxes, f.Values[0]-f.Values[2]/2, f.Values[1]-f.Values[3]/2, f.Values[0]+f.Values[2]/2, f.Values[1]+f.Values[3]/2)
	}
	if len(scores) < 5 {
		t.Fatalf("only %d faces", len(scores))
	}
	same(t, "scores", samples.Values(outputs["score"]), scores, 1e-5, 1e-5)
	same(t, "boxes", samples.Values(outputs["box"]), boxes, 0.01, 0.01)
}

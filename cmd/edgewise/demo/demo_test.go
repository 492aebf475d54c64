package demo

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// pipeline answers every request with the same outputs.
type pipeline struct {
	t        *testing.T
	name     string
	outputs  []edgewise.Tensor
	err      error
	released int
}

var file = samples.Elements("image", "a file")

func (p *pipeline) Infer(_ context.Context, r *edgewise.Request) (*edgewise.Response, error) {
	if r.Model.Name != p.name || len(r.Inputs) != 1 || string(r.Inputs[0].Data) != string(file.Data) {
		p.t.Errorf("asked %v with %v", r.Model, r.Inputs)
	}
	if p.err != nil {
		return nil, p.err
	}
	return &edgewise.Response{Model: r.Model, Outputs: p.outputs, Free: func() { p.released++ }}, nil
}

func (p *pipeline) wantReleased(t *testing.T) {
	t.Helper()
	if p.released != 1 {
		t.Errorf("the response was released %d times, want once", p.released)
	}
}

// corners are those of an upright region, from its top left corner.
func corners(x, y, width, height float32) []float32 {
	return []float32{x, y, x + width, y, x + width, y + height, x, y + height}
}

func textOutputs(regions [][]float32, texts []string, confidences, turned []float32) []edgewise.Tensor {
	var quads []float32
	for _, r := range regions {
		quads = append(quads, r...)
	}
	n := int64(len(texts))
	return []edgewise.Tensor{
		samples.Elements("text", texts...), samples.Floats("confidence", confidences, n),
		samples.Floats("quad", quads, int64(len(regions)), 4, 2), samples.Floats("turned", turned, n, 2),
	}
}

func TestTextIsReadInReadingOrder(t *testing.T) {
	p := &pipeline{t: t, name: "text", outputs: textOutputs(
		[][]float32{corners(200, 9, 100, 20), corners(10, 10, 100, 20), corners(10, 50, 80, 20), corners(10, 90, 80, 20)},
		[]string{"right", "left", "unsure", " "}, []float32{0.75, 0.5, 0.49, 1}, []float32{1, 0, 1, 0, 1, 0, 1, 0})}
	text, err := ReadText(t.Context(), p, file)
	if err != nil {
		t.Fatal(err)
	}
	p.wantReleased(t)
	want := "0.50    10,10    left\n0.75   200,9     right\n"
	if got := text.String(); got != want || text.Unread != 0 {
		t.Errorf("read\n%s%d regions are not read; want\n%s", got, text.Unread, want)
	}
	data, err := json.Marshal(text)
	if err != nil || !strings.HasPrefix(string(data), `{"lines":[{"text":"left","confidence":0.5,"box":[[10,10],[110,10],[110,30],[10,30]]}`) {
		t.Errorf("as JSON it is %s, %v", data, err)
	}
}

// TestABoxBeginsAboveTheFirstLetter gives regions with text that runs up, down, and stands on its head.
func TestABoxBeginsAboveTheFirstLetter(t *testing.T) {
	for _, test := range []struct {
		name    string
		region  []float32
		flipped float32
		want    Point
	}{
		{"level", corners(10, 20, 100, 20), 0.9, Point{10, 20}},
		{"on its head", corners(10, 20, 100, 20), 0.91, Point{110, 40}},
		{"downwards", corners(10, 20, 20, 100), 0, Point{30, 20}},
		{"upwards", corners(10, 20, 20, 100), 1, Point{10, 120}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &pipeline{t: t, name: "text", outputs: textOutputs([][]float32{test.region}, []string{"x"}, []float32{1},
				[]float32{1 - test.flipped, test.flipped})}
			text, err := ReadText(t.Context(), p, file)
			if err != nil || len(text.Lines) != 1 || text.Lines[0].Box[0] != test.want {
				t.Errorf("%+v, %v: want a box from %v", text, err, test.want)
			}
		})
	}
}

func TestRegionsOverTheBoundOfThePipelineAreCounted(t *testing.T) {
	region := corners(10, 20, 100, 20)
	p := &pipeline{t: t, name: "text", outputs: textOutputs([][]float32{region, region, region}, []string{"x"}, []float32{1}, []float32{1, 0})}
	text, err := ReadText(t.Context(), p, file)
	if err != nil || text.Unread != 2 || !strings.HasSuffix(text.String(), "x\n2 more regions of text are not read\n") {
		t.Errorf("%v, %v", text, err)
	}
	p.outputs = textOutputs(nil, nil, nil, nil)
	if text, err = ReadText(t.Context(), p, file); err != nil || text.String() != "no text found\n" {
		t.Errorf("of a picture without text: %v, %v", text, err)
	}
}

func TestFacesAreNamedPrintedAndWritten(t *testing.T) {
	p := &pipeline{t: t, name: "faces", outputs: []edgewise.Tensor{
		samples.Floats("score", []float32{0.875}, 1), samples.Floats("box", []float32{80, 60, 120, 100}, 1, 4),
		samples.Floats("point", []float32{90, 70, 110, 70, 100, 80, 100, 90, 80, 75, 120, 75}, 1, 6, 2),
	}}
	faces, err := FindFaces(t.Context(), p, file)
	if err != nil {
		t.Fatal(err)
	}
	p.wantReleased(t)
	if got, want := faces.String(), "face  0.88  at 80,60 size 40x40  eyes at 100,70\n"; got != want {
		t.Errorf("printed as %q, want %q", got, want)
	}
	const want = `{"faces":[{"score":0.875,"low":[80,60],"high":[120,100],"left_eye":[90,70],"right_eye":[110,70],` +
		`"nose":[100,80],"mouth":[100,90],"left_ear":[80,75],"right_ear":[120,75]}]}`
	if data, err := json.Marshal(faces); err != nil || string(data) != want {
		t.Errorf("as JSON it is %s, %v", data, err)
	}
	if got := (Faces{}).String(); got != "no face found\n" {
		t.Errorf("none is printed as %q", got)
	}
}

func TestSpeechIsPrinted(t *testing.T) {
	p := &pipeline{t: t, name: "speech", outputs: []edgewise.Tensor{
		samples.Floats("start", []float32{0.5, 2}, 2), samples.Floats("end", []float32{1.5, 2.5}, 2),
		samples.Floats("probability", []float32{0.25, 0.75, 0.5}, 3),
	}}
	speech, err := FindSpeech(t.Context(), p, file, 3)
	if err != nil {
		t.Fatal(err)
	}
	p.wantReleased(t)
	want := "speech     0.50 s ..    1.50 s\nspeech     2.00 s ..    2.50 s\n" +
		"1.50 s of 3.00 s are speech; highest probability 0.75\n"
	if got := speech.String(); got != want {
		t.Errorf("printed as %q, want %q", got, want)
	}
	if got, want := (Speech{Seconds: 2}).String(), "no speech found\n0.00 s of 2.00 s are speech; highest probability 0.00\n"; got != want {
		t.Errorf("silence is printed as %q, want %q", got, want)
	}
}

func TestAnswersOfAnotherModelAreRefused(t *testing.T) {
	score := samples.Floats("score", []float32{1, 1}, 2)
	box := func(values int64, shape ...int64) edgewise.Tensor {
		return samples.Floats("box", make([]float32, values), shape...)
	}
	for _, test := range []struct {
		name, message string
		outputs       []edgewise.Tensor
	}{
		{"missing", `it has no output "score"`, nil},
		{"another type", `output "score": want FP32, got BYTES`, []edgewise.Tensor{samples.Elements("score", "x")}},
		{"too few rows", `output "box": want at least 2 rows of 4 values, got 4 values`, []edgewise.Tensor{score, box(4, 1, 4)}},
		{"broken rows", `output "box": want at least 2 rows of 4 values, got 9 values`, []edgewise.Tensor{score, box(9, 9)}},
		{"bytes", "takes 2 elements", []edgewise.Tensor{samples.Floats("score", []float32{1}, 2)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &pipeline{t: t, name: "faces", outputs: test.outputs}
			_, err := FindFaces(t.Context(), p, file)
			if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), test.message) ||
				!strings.Contains(err.Error(), `model "faces" is not the demo's pipeline`) {
				t.Errorf("%v: want an invalid error with %q", err, test.message)
			}
			p.wantReleased(t)
		})
	}
}

func TestTheBoxesErrorIsPassedOn(t *testing.T) {
	p := &pipeline{t: t, name: "text", err: edgewise.Errorf("test", edgewise.Unavailable, "not ready")}
	if _, err := ReadText(t.Context(), p, file); edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

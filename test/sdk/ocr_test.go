package sdk

import (
	"image"
	"image/draw"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/demo"
	"github.com/edgewise-ai/edgewise/test/real"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// keys are the characters of PP-OCR's recognition model.
func keys(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(real.Root(t), "cmd/edgewise/demo/ppocr_keys_v1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sample reads the demo's picture of text.
func sample(t *testing.T) *image.RGBA {
	t.Helper()
	file, err := os.Open(filepath.Join(real.Samples(t), "text.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoded, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	picture := image.NewRGBA(image.Rectangle{Max: decoded.Bounds().Size()})
	draw.Draw(picture, picture.Rect, decoded, image.Point{}, draw.Src)
	return picture
}

// ocrModels answer as PP-OCR's models might: text in some places of the picture, one of them turned, some lines on
// their head, and characters from a fixed sequence of random ones.
type ocrModels struct {
	random  *rand.Rand
	classes int
	heat    edgewise.Tensor
	turned  []float32 // of the lines, in the order of the regions
	texts   []edgewise.Tensor
}

func (m *ocrModels) answer(request *edgewise.Request) ([]edgewise.Tensor, error) {
	shape := request.Inputs[0].Shape
	switch request.Model.Name {
	case "detect":
		m.heat = samples.Floats("sigmoid_0.tmp_0", samples.Regions(m.random, int(shape[3]), int(shape[2])), 1, 1, shape[2], shape[3])
		return []edgewise.Tensor{m.heat}, nil
	case "direction":
		data := make([]float32, 0, 2*shape[0])
		for range shape[0] {
			p := float32(0.05)
			if m.random.IntN(2) == 0 {
				p = 0.97
			}
			data = append(data, 1-p, p)
		}
		m.turned = append(m.turned, data...)
		return []edgewise.Tensor{samples.Floats("softmax_0.tmp_0", data, shape[0], 2)}, nil
	}
	text := samples.Characters(m.random, shape[0], shape[3]/8, m.classes)
	m.texts = append(m.texts, text)
	return []edgewise.Tensor{text}, nil
}

// TestOCRStepsDoWhatTheDemoDoes runs the demo's native text recognition, and the steps in its place, on the same
// picture and the same answers of the models.
func TestOCRStepsDoWhatTheDemoDoes(t *testing.T) {
	alphabet := keys(t)
	models := &ocrModels{random: rand.New(rand.NewPCG(1, 2)), classes: len(strings.Split(strings.TrimSuffix(alphabet, "\n"), "\n")) + 2}
	native := &box{answer: models.answer}
	picture := sample(t)
	want, err := demo.NewOCR(native, demo.OCRModels{
		Detect: "detect", Direction: "direction",
		Recognise: "recognise",
	}).Read(t.Context(), picture)
	if err != nil {
		t.Fatal(err)
	}
	file := samples.Elements("image", encoded(t, picture))
	input := run(t, gallery(t, "ocr_input", nil), nil, file)
	same(t, "detection input", samples.Values(input["tensor"]), samples.Values(native.of("detect")[0].Inputs[0]),
		1.01/255/0.224, 1.01/255/0.224)

	quads := run(t, gallery(t, "ocr_regions", nil), nil, renamed(models.heat, "heat"), renamed(input["size"], "size"))["quad"]
	if n := int(quads.Shape[0]); n != 5 || n*2 != len(models.turned) {
		t.Fatalf("%d regions, the demo has %d", n, len(models.turned)/2)
	}
	lines := gallery(t, "ocr_lines", nil)
	upright := run(t, lines, nil, file, renamed(quads, "quad"))
	head := native.of("direction")[0].Inputs[0]
	// Two roundings to 8 bits, and the library's other one: a few steps of 255 at most.
	same(t, "direction input", samples.Values(upright["head"]), samples.Values(head), 2.01/127.5, 4.01/127.5)
	turned := run(t, lines, nil, file, renamed(quads, "quad"), samples.Floats("turned", models.turned, quads.Shape[0], 2))
	sameLines(t, turned, native.of("recognise")[0].Inputs[0])

	ctc := gallery(t, "ctc", nil)
	read := run(t, ctc, parameters{"alphabet", alphabet, "space_threshold", "0.005"}, renamed(models.texts[0], "probability"))
	got := texts(read["text"])
	if len(want.Lines) < 4 {
		t.Fatalf("the demo reads only %d lines", len(want.Lines))
	}
	for _, l := range want.Lines {
		i := slices.Index(got, l.Text)
		if i < 0 {
			t.Errorf("%q is not among %q", l.Text, got)
			continue
		}
		if c := float64(samples.Values(read["confidence"])[i]); math.Abs(c-l.Confidence) > 1e-6 {
			t.Errorf("%q: confidence %v, want %v", l.Text, c, l.Confidence)
		}
		if !slices.ContainsFunc(quadsOf(quads), func(q demo.Quad) bool {
			return q == l.Box || q == turnedQuad(l.Box, 2) || q == turnedQuad(l.Box, 1) || q == turnedQuad(l.Box, 3)
		}) {
			t.Errorf("%q: box %v is not among %v", l.Text, l.Box, quadsOf(quads))
		}
	}
}

// sameLines compares the lines with the demo's request, whose lines are sorted by width and padded as the widest is.
func sameLines(t *testing.T, outputs map[string]edgewise.Tensor, request edgewise.Tensor) {
	t.Helper()
	line, widths := outputs["line"], integers(outputs["width"])
	if !line.Shape.Equal(request.Shape) {
		t.Fatalf("lines are %v, the demo sends %v", line.Shape, request.Shape)
	}
	order := make([]int, len(widths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return int(widths[i] - widths[j]) })
	each := int(line.Shape[1] * line.Shape[2] * line.Shape[3])
	got, want := samples.Values(line), samples.Values(request)
	for at, i := range order {
		same(t, "a line", got[i*each:][:each], want[at*each:][:each], 2.01/127.5, 4.01/127.5)
	}
}

func quadsOf(t edgewise.Tensor) []demo.Quad {
	v := samples.Values(t)
	quads := make([]demo.Quad, len(v)/8)
	for i := range quads {
		for k := range 4 {
			quads[i][k] = demo.Point{X: float64(v[8*i+2*k]), Y: float64(v[8*i+2*k+1])}
		}
	}
	return quads
}

func turnedQuad(q demo.Quad, n int) demo.Quad {
	return demo.Quad{q[n%4], q[(n+1)%4], q[(n+2)%4], q[(n+3)%4]}
}

func TestCTCIsGreedyWhereSpacesHaveNoThreshold(t *testing.T) {
	l := gallery(t, "ctc", nil)
	// Columns by their likeliest class: a, b, 猫 and a space, class 0 is none.
	columns := func(classes ...int) edgewise.Tensor {
		data := make([]float32, 5*len(classes))
		for i, c := range classes {
			data[5*i+c] = 0.5
		}
		return samples.Floats("probability", data, 1, int64(len(classes)), 5)
	}
	p := parameters{"alphabet", "a\nb\n猫\n"}
	tests := []struct {
		name    string
		columns []int
		want    string
	}{
		{"repetitions", []int{1, 1, 0, 1, 2, 2}, "aab"},
		{"a space", []int{1, 4, 4, 0, 2}, "a b"},
		{"a space in a script without", []int{3, 4, 0, 3}, "猫 猫"},
		{"spaces at the ends", []int{4, 0, 1, 4}, "a"},
		{"nothing", []int{0, 0, 4}, ""},
	}
	for _, tt := range tests {
		outputs := run(t, l, p, columns(tt.columns...))
		want := float32(0.5)
		if tt.want == "" {
			want = 0
		}
		if got := texts(outputs["text"])[0]; got != tt.want || samples.Values(outputs["confidence"])[0] != want {
			t.Errorf("%s: %q with %v, want %q", tt.name, got, samples.Values(outputs["confidence"])[0], tt.want)
		}
	}
	refuses(t, l, nil, `parameter "alphabet" is missing`, columns(1))
	refuses(t, l, parameters{"alphabet", "a\nb"},
		"has 5 classes: the alphabet has 2 characters and a space, and one class is no character", columns(1))
	refuses(t, l, parameters{"alphabet", "a\nb\nc", "space", "maybe"}, `parameter "space" is "maybe": want true or false`, columns(1))
	if got := texts(run(t, l, parameters{"alphabet", "a\nb\nc\nd", "space", "false"}, columns(4, 4, 1))["text"])[0]; got != "da" {
		t.Errorf("%q without a class for the space", got)
	}
}

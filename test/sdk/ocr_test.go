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
	"github.com/edgewise-ai/edgewise/test/real"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// keys are the characters of PP-OCR's recognition model.
func keys(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "native", "ppocr_keys_v1.txt"))
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

// TestOCRStepsDoWhatTheNativeCodeDoes runs the steps on the picture and the models' answers that native code was given.
func TestOCRStepsDoWhatTheNativeCodeDoes(t *testing.T) {
	alphabet := keys(t)
	random := rand.New(rand.NewPCG(1, 2))
	file := samples.Elements("image", encoded(t, sample(t)))
	input := run(t, gallery(t, "ocr_input", nil), nil, file)
	same(t, "detection input", samples.Values(input["tensor"]), nativeValues(t, "ocr_detect.gz"), 1.01/255/0.224, 1.01/255/0.224)

	// The models answer as PP-OCR's might: text in some places of the picture, one of them turned, some lines on their
	// head, and random characters.
	width, height := input["tensor"].Shape[3], input["tensor"].Shape[2]
	heat := samples.Floats("heat", textRegions(random, int(width), int(height)), 1, 1, height, width)
	quads := run(t, gallery(t, "ocr_regions", nil), nil, heat, renamed(input["size"], "size"))["quad"]
	const regions = 5
	if n := quads.Shape[0]; n != regions {
		t.Fatalf("%d regions, native code has %d", n, regions)
	}
	lines := gallery(t, "ocr_lines", nil)
	upright := run(t, lines, nil, file, renamed(quads, "quad"))
	// Two roundings to 8 bits, and the library's other one: a few steps of 255 at most.
	same(t, "direction input", samples.Values(upright["head"]), nativeValues(t, "ocr_direction.gz"), 2.01/127.5, 4.01/127.5)
	directions := samples.Floats("turned", turnedLines(random, regions), regions, 2)
	turned := run(t, lines, nil, file, renamed(quads, "quad"), directions)
	sameLines(t, turned, nativeValues(t, "ocr_recognise.gz"))

	classes := len(strings.Split(alphabet, "\n")) + 2 // no character, and the space
	characters := characterColumns(random, regions, turned["line"].Shape[3]/8, classes)
	read := run(t, gallery(t, "ctc", nil), parameters{"alphabet", alphabet, "space_threshold", "0.005"}, renamed(characters, "probability"))
	got := texts(read["text"])
	want := native[[]nativeLine](t, "ocr.json")
	if len(want) < 4 {
		t.Fatalf("native code reads only %d lines", len(want))
	}
	for _, l := range want {
		i := slices.Index(got, l.Text)
		if i < 0 {
			t.Errorf("%q is not among %q", l.Text, got)
			continue
		}
		if c := float64(samples.Values(read["confidence"])[i]); math.Abs(c-l.Confidence) > 1e-6 {
			t.Errorf("%q: confidence %v, want %v", l.Text, c, l.Confidence)
		}
		if !slices.ContainsFunc(quadsOf(quads), l.isAt) {
			t.Errorf("%q: box %v is not among %v", l.Text, l.Box, quadsOf(quads))
		}
	}
}

// turnedLines are answers of the direction model.
func turnedLines(random *rand.Rand, n int) (probabilities []float32) {
	for range n {
		p := float32(0.05)
		if random.IntN(2) == 0 {
			p = 0.97
		}
		probabilities = append(probabilities, 1-p, p)
	}
	return probabilities
}

// quad is the four corners of a region, clockwise.
type quad [4][2]float64

// nativeLine is a line of text as native code reads it. Its box begins above the first letter.
type nativeLine struct {
	Text       string
	Confidence float64
	Box        quad
}

// isAt tells whether q is the line's box, from whichever corner. Native code has rounded its own to a tenth of a pixel.
func (l *nativeLine) isAt(q quad) bool {
	for first := range q {
		near := true
		for k, corner := range l.Box {
			other := q[(first+k)%4]
			near = near && math.Abs(corner[0]-other[0]) <= 0.05 && math.Abs(corner[1]-other[1]) <= 0.05
		}
		if near {
			return true
		}
	}
	return false
}

// sameLines compares the lines with native code's request, whose lines are sorted by width and padded as the widest is.
func sameLines(t *testing.T, outputs map[string]edgewise.Tensor, want []float32) {
	t.Helper()
	line, widths := outputs["line"], integers(outputs["width"])
	got := samples.Values(line)
	if len(got) != len(want) {
		t.Fatalf("lines are %v, native code sends %d values", line.Shape, len(want))
	}
	order := make([]int, len(widths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return int(widths[i] - widths[j]) })
	each := int(line.Shape[1] * line.Shape[2] * line.Shape[3])
	for at, i := range order {
		same(t, "a line", got[i*each:][:each], want[at*each:][:each], 2.01/127.5, 4.01/127.5)
	}
}

func quadsOf(t edgewise.Tensor) []quad {
	v := samples.Values(t)
	quads := make([]quad, len(v)/8)
	for i := range quads {
		for k := range 8 {
			quads[i][k/2][k%2] = float64(v[8*i+k])
		}
	}
	return quads
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

package demo

import (
	"context"
	"image"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// spelled makes the probabilities of a text in which each character of columns stands for one column: '-' for no
// character, '~' for no character with a space at spaceThreshold, '_' for a space.
func spelled(columns string, alphabet []string) []float32 {
	probabilities := make([]float32, 0, len(columns)*len(alphabet))
	for _, c := range columns {
		classes := make([]float32, len(alphabet))
		switch c {
		case '-':
			classes[0] = 1
		case '~':
			classes[0], classes[len(alphabet)-1] = 0.9, spaceThreshold
		case '_':
			classes[len(alphabet)-1] = 0.8
		default:
			for i, character := range alphabet {
				if character == string(c) {
					classes[i] = 0.8
				}
			}
		}
		probabilities = append(probabilities, classes...)
	}
	return probabilities
}

func TestDecodeReadsColumns(t *testing.T) {
	characters := []string{"", "a", "b", "l", "@", "中", "。", " "}
	for _, test := range []struct{ name, columns, want string }{
		{"repetitions are one character", "-aaa-bb-", "ab"},
		{"a gap parts equal characters", "l-l", "ll"},
		{"nothing", "----", ""},
		{"a space", "a_b", "a b"},
		{"a space is one however wide", "a__-__b", "a b"},
		{"a space between equal characters", "a_a", "a a"},
		{"an unsure space", "a-~-b", "a b"},
		{"no space at the ends", "_a~", "a"},
		{"an unsure space is none between ideographs", "中~中", "中中"},
		{"nor beside one", "a~。", "a。"},
		{"nor in an address", "a~@~b", "a@b"},
		{"a sure space is one everywhere", "中_中", "中 中"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := decode(spelled(test.columns, characters), characters)
			if got.text != test.want {
				t.Errorf("%s reads %q, want %q", test.columns, got.text, test.want)
			}
			if want := 0.8; test.want != "" && !near(got.confidence, want, 1e-6) || test.want == "" && got.confidence != 0 {
				t.Errorf("confidence %v", got.confidence)
			}
		})
	}
}

func TestAlphabetHasAClassForEveryOutputOfTheModel(t *testing.T) {
	characters := alphabet()
	if len(characters) != 6625 || characters[0] != "" || characters[1] != "'" || characters[6624] != " " {
		t.Fatalf("%d classes from %q to %q", len(characters), characters[:2], characters[len(characters)-1])
	}
	seen := map[string]bool{}
	for i, c := range characters {
		if i > 0 && (c == "" || seen[c] || strings.ContainsAny(c, "\r\n")) {
			t.Errorf("class %d is %q", i, c)
		}
		seen[c] = true
	}
}

func TestRecogniseKeepsTheOrderAndBoundsEveryRequest(t *testing.T) {
	characters := []string{"", "a", "b", "c", "d", " "}
	// A line's grey tells which it is; its width, in which request it goes.
	widths := []int{3000, 48, 900, 48, 320, 3200, 700, 200, 100, 60}
	lines := make([]*line, len(widths))
	for i, w := range widths {
		picture := image.NewRGBA(image.Rect(0, 0, w, lineHeight))
		for k := range picture.Pix {
			picture.Pix[k] = byte(20 * i)
		}
		lines[i] = &line{picture: picture, width: w}
	}
	b := &box{answer: func(r *edgewise.Request) ([]edgewise.Tensor, error) {
		values, shape := input(t, r, "x")
		if shape[0] > recogniseBatch || shape[0] > 1 && shape[0]*shape[3] > recogniseColumns || shape[3] < recogniseWidth {
			t.Errorf("a request of %v", shape)
		}
		var answer []float32
		each := len(values) / int(shape[0])
		for i := range int(shape[0]) {
			n := int((values[i*each]+1)*127.5/20 + 0.5)
			answer = append(answer, spelled(strings.Repeat("a-", n)+strings.Repeat("-", 20-2*n), characters)...)
		}
		return []edgewise.Tensor{floats("softmax_11.tmp_0", answer, shape[0], 20, int64(len(characters)))}, nil
	}}
	o := &OCR{box: b, alphabet: characters}
	texts, err := o.recognise(context.Background(), lines)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if text.text != strings.Repeat("a", i) {
			t.Errorf("line %d reads %q", i, text.text)
		}
	}
}

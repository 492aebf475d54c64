package demo

import (
	"cmp"
	"context"
	_ "embed"
	"math"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

const (
	recogniseBatch   = 6    // lines in one request
	recogniseWidth   = 320  // columns that a line is padded to at least
	recogniseColumns = 3840 // columns of all lines of one request together, padding included, unless it is one line
)

//go:embed ppocr_keys_v1.txt
var keys string

// alphabet returns the characters by class number: class 0 is no character, the last one is a space.
func alphabet() []string {
	characters := strings.Split(strings.TrimSuffix(keys, "\n"), "\n")
	return append(append([]string{""}, characters...), " ")
}

// recognise reads the lines. The texts are in the order of lines.
func (o *OCR) recognise(ctx context.Context, lines []*line) ([]decoded, error) {
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(lines[i].width, lines[j].width) })
	texts := make([]decoded, len(lines))
	for len(order) > 0 {
		batch := order[:batchSize(lines, order)]
		order = order[len(batch):]
		outputs, err := call(ctx, o.box, o.models.Recognise, []edgewise.Tensor{recogniseInput(lines, batch)},
			want{"softmax_11.tmp_0", edgewise.Shape{int64(len(batch)), -1, int64(len(o.alphabet))}})
		if err != nil {
			return nil, err
		}
		each := len(outputs[0].values) / len(batch)
		for i, at := range batch {
			texts[at] = decode(outputs[0].values[i*each:][:each], o.alphabet)
		}
	}
	return texts, nil
}

// batchSize returns how many of the lines in order, which are sorted by width, go into one request.
func batchSize(lines []*line, order []int) int {
	n := 1
	for n < min(recogniseBatch, len(order)) && (n+1)*max(recogniseWidth, lines[order[n]].width) <= recogniseColumns {
		n++
	}
	return n
}

// recogniseInput makes the recognition model's input, FP32 [N,3,48,W], W being the widest line.
func recogniseInput(lines []*line, batch []int) edgewise.Tensor {
	width := max(recogniseWidth, lines[batch[len(batch)-1]].width)
	plane := 3 * lineHeight * width
	values := make([]float32, len(batch)*plane)
	for i, at := range batch {
		normalise(lines[at].picture, values[i*plane:][:plane], lines[at].width, width)
	}
	return floats("x", values, int64(len(batch)), 3, lineHeight, int64(width))
}

// spaceThreshold is the probability of a space, in the likeliest column between two characters, from which there is
// one. The model was trained mostly on Chinese, where spaces are rare, and is far too shy of them: on 2,444 gaps within
// and 576 between English words, drawn in four fonts and sizes, the likeliest class alone misses 350 of the spaces.
// This threshold misses 1, and adds 21 that are none, nearly all of them beside an @, where none is taken for that
// reason.
const spaceThreshold = 0.005

// decoded is a text and how sure the model is of it: the mean probability of its characters, 0 for no text.
type decoded struct {
	text       string
	confidence float64
}

// decode reads the probabilities of each class in each column: the likeliest class of every column, repetitions and
// columns without a character left out (greedy CTC), and spaces by spaceThreshold. Spaces at both ends are left out.
func decode(probabilities []float32, alphabet []string) decoded {
	var text strings.Builder
	space := len(alphabet) - 1
	sum, n, before, last := 0.0, 0, 0, 0
	gap := float32(0) // the highest probability of a space since the last character
	for classes := range slices.Chunk(probabilities, len(alphabet)) {
		best := likeliest(classes)
		if best == 0 || best == space {
			gap = max(gap, classes[space])
		} else if best != before {
			if n > 0 && gap >= spaceThreshold && (before == space || spaced(alphabet[last]) && spaced(alphabet[best])) {
				text.WriteByte(' ')
			}
			text.WriteString(alphabet[best])
			sum += float64(classes[best])
			n++
			last, gap = best, 0
		}
		before = best
	}
	if n == 0 || math.IsNaN(sum) {
		return decoded{}
	}
	return decoded{text.String(), sum / float64(n)}
}

func likeliest(classes []float32) int {
	best := 0
	for class, p := range classes {
		if p > classes[best] {
			best = class
		}
	}
	return best
}

// spaced tells whether a character may stand beside a space that the model is unsure of: not the @ of an address, and
// no character of a script that does without spaces.
func spaced(character string) bool {
	const firstIdeographic = '\u2e80' // radicals, kana, ideographs and their punctuation begin here
	for _, r := range character {
		return r < firstIdeographic && r != '@'
	}
	return false
}

package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// minConfidence is how sure the recognition must be of a line for it to be reported, as in PP-OCR.
const minConfidence = 0.5

// When a region holds text that runs up or down, or stands on its head, as the pipeline has it.
const (
	minTurned     = 1.5 // a region this many times as high as wide
	flipThreshold = 0.9 // how sure the direction model must be
)

// Text is what was read in a picture, in reading order.
type Text struct {
	Lines  []TextLine `json:"lines"`
	Unread int        `json:"unread"` // regions of text over the pipeline's bound (max_lines of ocr_lines)
}

// TextLine is one line of text.
type TextLine struct {
	Text       string  `json:"text"`
	Confidence float64 `json:"confidence"` // 0..1, the mean over its characters
	Box        Quad    `json:"box"`        // from the corner above its first letter
}

// ReadText reads the text in a picture with the pipeline "text". A picture without text has no lines. Errors: those of
// the box, and Invalid when another model has the pipeline's name.
func ReadText(ctx context.Context, box edgewise.Inferer, picture edgewise.Tensor) (Text, error) {
	text := Text{Lines: []TextLine{}}
	err := ask(ctx, box, "text", picture, func(a *answer) {
		texts := a.texts("text")
		n := len(texts)
		confidences, corners, turned := a.floats("confidence", n, 1), a.floats("quad", n, 8), a.floats("turned", n, 2)
		text.Unread = len(corners)/8 - n
		var lines []TextLine
		for i := range texts {
			line := TextLine{Text: texts[i], Confidence: float64(confidences[i]), Box: quadOf(corners[8*i:], turned[2*i+1])}
			if line.Confidence >= minConfidence && strings.TrimSpace(line.Text) != "" {
				lines = append(lines, line)
			}
		}
		for _, i := range readingOrder(lines) {
			text.Lines = append(text.Lines, lines[i])
		}
	})
	return text, err
}

// quadOf reads the corners of a region and returns them from the one above the first letter. flipped is the probability
// that the line stands on its head.
func quadOf(corners []float32, flipped float32) (q Quad) {
	for k := range q {
		q[k] = pointOf(corners[2*k:])
	}
	if q.height() >= minTurned*q.width() {
		q = q.rotated(1)
	}
	if flipped > flipThreshold {
		q = q.rotated(2)
	}
	return q
}

// String returns one line for each line of text: its confidence, the corner above its first letter, and the text.
func (t Text) String() string {
	var b strings.Builder
	for _, l := range t.Lines {
		fmt.Fprintf(&b, "%.2f  %4.0f,%-4.0f  %s\n", l.Confidence, l.Box[0].X, l.Box[0].Y, l.Text)
	}
	if len(t.Lines) == 0 {
		b.WriteString("no text found\n")
	}
	if t.Unread > 0 {
		fmt.Fprintf(&b, "%d more regions of text are not read\n", t.Unread)
	}
	return b.String()
}

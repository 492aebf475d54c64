package demo

import (
	"context"
	"fmt"
	"image"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// minConfidence is how sure the recognition must be of a line for it to be reported, as in PP-OCR.
const minConfidence = 0.5

// OCRModels are the names under which the box serves the three models.
type OCRModels struct{ Detect, Direction, Recognise string }

// OCR reads text in pictures. It is safe for concurrent use.
type OCR struct {
	box      edgewise.Inferer
	models   OCRModels
	alphabet []string
}

// NewOCR returns a reader that asks box.
func NewOCR(box edgewise.Inferer, models OCRModels) *OCR {
	return &OCR{box: box, models: models, alphabet: alphabet()}
}

// Text is what was read in a picture, in reading order.
type Text struct {
	Lines []TextLine `json:"lines"`
}

// TextLine is one line of text.
type TextLine struct {
	Text       string  `json:"text"`
	Confidence float64 `json:"confidence"` // 0..1, the mean over its characters
	Box        Quad    `json:"box"`        // from the corner above its first letter
}

// Read finds and reads the text in picture, whose origin is 0,0. A picture without text has no lines. Errors: those of
// the box, and Invalid when other models answer under the names given.
func (o *OCR) Read(ctx context.Context, picture *image.RGBA) (Text, error) {
	quads, err := o.detect(ctx, picture)
	if err != nil {
		return Text{}, err
	}
	lines := make([]*line, len(quads))
	for i, q := range quads {
		l := cut(picture, q)
		lines[i] = &l
	}
	if err := o.straighten(ctx, lines); err != nil {
		return Text{}, err
	}
	texts, err := o.recognise(ctx, lines)
	if err != nil {
		return Text{}, err
	}
	return arrange(lines, texts), nil
}

// arrange puts the lines that were read well enough into reading order.
func arrange(lines []*line, texts []decoded) Text {
	var kept []TextLine
	var quads []Quad
	for i, t := range texts {
		if t.confidence >= minConfidence && strings.TrimSpace(t.text) != "" {
			kept = append(kept, TextLine{Text: t.text, Confidence: t.confidence, Box: lines[i].quad})
			quads = append(quads, lines[i].quad)
		}
	}
	text := Text{Lines: make([]TextLine, 0, len(kept))}
	for _, i := range readingOrder(quads) {
		text.Lines = append(text.Lines, kept[i])
	}
	return text
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
	return b.String()
}

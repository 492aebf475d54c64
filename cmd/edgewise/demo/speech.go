package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Speech is where somebody speaks in a sound.
type Speech struct {
	Seconds  float64   `json:"seconds"` // how long the sound is
	Highest  float64   `json:"highest"` // the highest probability of speech of all frames of 32 ms
	Segments []Segment `json:"segments"`
}

// Segment is a stretch of speech, in seconds from the beginning.
type Segment struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// FindSpeech finds the speech in a WAV file of so many seconds with the pipeline "speech". Errors: those of the box, and
// Invalid when another model has the pipeline's name.
func FindSpeech(ctx context.Context, box edgewise.Inferer, sound edgewise.Tensor, seconds float64) (Speech, error) {
	speech := Speech{Seconds: seconds, Segments: []Segment{}}
	err := ask(ctx, box, "speech", sound, func(a *answer) {
		starts := a.floats("start", 0, 1)
		ends := a.floats("end", len(starts), 1)
		for i := range starts {
			speech.Segments = append(speech.Segments, Segment{float64(starts[i]), float64(ends[i])})
		}
		for _, p := range a.floats("probability", 0, 1) {
			speech.Highest = max(speech.Highest, float64(p))
		}
	})
	return speech, err
}

// String returns one line for each segment, and how much speech is in the sound.
func (s Speech) String() string {
	var b strings.Builder
	spoken := 0.0
	for _, segment := range s.Segments {
		fmt.Fprintf(&b, "speech  %7.2f s .. %7.2f s\n", segment.Start, segment.End)
		spoken += segment.End - segment.Start
	}
	if len(s.Segments) == 0 {
		b.WriteString("no speech found\n")
	}
	fmt.Fprintf(&b, "%.2f s of %.2f s are speech; highest probability %.2f\n", spoken, s.Seconds, s.Highest)
	return b.String()
}

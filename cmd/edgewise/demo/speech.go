package demo

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// SpeechRate is the rate of the sound that VAD takes, in samples a second.
const SpeechRate = 16_000

// What Silero VAD 5 takes: frames of 32 ms, each with the last samples of the one before, and a state that is carried.
const (
	frameSamples   = 512
	contextSamples = 64
	stateValues    = 2 * 128
)

// Silero's own settings of when speech begins and ends, in samples where they are times.
//
// Source: silero-vad, get_speech_timestamps.
const (
	speechThreshold  = 0.5  // speech begins at this probability
	silenceThreshold = 0.35 // and ends below this one
	minSpeech        = SpeechRate * 250 / 1000
	minSilence       = SpeechRate * 100 / 1000
	speechPadding    = SpeechRate * 30 / 1000
)

// VAD finds speech in sound. It is safe for concurrent use; every call of Find is one request a frame, one after the
// other.
type VAD struct {
	box   edgewise.Inferer
	model string
	// Progress is called after every frame, when it is not nil.
	Progress func(done, total int)
}

// NewVAD returns a detector that asks box for model.
func NewVAD(box edgewise.Inferer, model string) *VAD { return &VAD{box: box, model: model} }

// Speech is where somebody speaks in a sound.
type Speech struct {
	Seconds  float64   `json:"seconds"` // how long the sound is
	Highest  float64   `json:"highest"` // the highest probability of speech of all frames
	Segments []Segment `json:"segments"`
}

// Segment is a stretch of speech, in seconds from the beginning.
type Segment struct {
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// Find finds the speech in samples: one channel at SpeechRate, -1..1. Errors: Invalid for an empty sound or when
// another model answers, and those of the box.
func (v *VAD) Find(ctx context.Context, samples []float32) (Speech, error) {
	if len(samples) == 0 {
		return Speech{}, edgewise.Errorf("demo.Find", edgewise.Invalid, "the sound is empty: want at least one sample")
	}
	probabilities, err := v.probabilities(ctx, samples)
	if err != nil {
		return Speech{}, err
	}
	speech := Speech{Seconds: float64(len(samples)) / SpeechRate, Segments: []Segment{}}
	for _, p := range probabilities {
		speech.Highest = max(speech.Highest, float64(p))
	}
	for _, s := range pad(spans(probabilities, len(samples)), len(samples)) {
		speech.Segments = append(speech.Segments, Segment{float64(s.start) / SpeechRate, float64(s.end) / SpeechRate})
	}
	return speech, nil
}

// probabilities asks the model about every frame. The last frame is filled up with silence.
func (v *VAD) probabilities(ctx context.Context, samples []float32) ([]float32, error) {
	total := (len(samples) + frameSamples - 1) / frameSamples
	probabilities := make([]float32, 0, total)
	window := make([]float32, contextSamples+frameSamples)
	state := make([]float32, stateValues)
	rate := edgewise.Tensor{
		Name: "sr", Type: edgewise.Int64, Shape: edgewise.Shape{1},
		Data: binary.LittleEndian.AppendUint64(nil, SpeechRate),
	}
	for n := range total {
		copy(window, window[frameSamples:])
		clear(window[contextSamples+copy(window[contextSamples:], samples[n*frameSamples:]):])
		inputs := []edgewise.Tensor{
			floats("input", window, 1, contextSamples+frameSamples), floats("state", state, 2, 1, 128), rate,
		}
		outputs, err := call(ctx, v.box, v.model, inputs, want{"output", edgewise.Shape{1, 1}}, want{"stateN", edgewise.Shape{2, 1, 128}})
		if err != nil {
			return nil, err
		}
		probabilities = append(probabilities, outputs[0].values[0])
		state = outputs[1].values
		if v.Progress != nil {
			v.Progress(n+1, total)
		}
	}
	return probabilities, nil
}

// span is a stretch of samples, end not included.
type span struct{ start, end int }

// spans returns the stretches of speech in length samples. Speech goes on through silences shorter than minSilence;
// stretches up to minSpeech are left out.
func spans(probabilities []float32, length int) []span {
	var found []span
	start, silence := -1, -1 // where speech, and silence within it, began
	keep := func(end int) {
		if end-start > minSpeech {
			found = append(found, span{start, end})
		}
		start, silence = -1, -1
	}
	for n, p := range probabilities {
		at := n * frameSamples
		switch {
		case p >= speechThreshold:
			silence = -1
			if start < 0 {
				start = at
			}
		case p < silenceThreshold && start >= 0:
			if silence < 0 {
				silence = at
			}
			if at-silence >= minSilence {
				keep(silence)
			}
		}
	}
	if start >= 0 {
		keep(length)
	}
	return found
}

// pad widens every span by speechPadding, neighbours sharing what lies between them when it is less than two paddings.
func pad(found []span, length int) []span {
	padded := make([]span, len(found))
	for i, s := range found {
		before, after := s.start, length-s.end
		if i > 0 {
			before = (s.start - found[i-1].end + 1) / 2
		}
		if i+1 < len(found) {
			after = (found[i+1].start - s.end) / 2
		}
		padded[i] = span{s.start - min(speechPadding, before), s.end + min(speechPadding, after)}
	}
	return padded
}

// String returns one line for each segment, and what was heard in all.
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
	fmt.Fprintf(&b, "%.2f s of %.2f s are speech; highest probability %.2f\n", spoken, math.Max(s.Seconds, 0), s.Highest)
	return b.String()
}

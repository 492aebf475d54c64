package demo

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// frames makes probabilities: each letter stands for a number of frames: s for speech, m for between, q for silence.
func frames(pattern string, each int) []float32 {
	value := map[rune]float32{'s': 0.9, 'm': 0.4, 'q': 0.1}
	var probabilities []float32
	for _, c := range pattern {
		for range each {
			probabilities = append(probabilities, value[c])
		}
	}
	return probabilities
}

func TestSpansBeginAndEndWithTheirOwnThresholds(t *testing.T) {
	const n = 10 * frameSamples // of one letter: 320 ms
	for _, test := range []struct {
		pattern string
		want    []span
	}{
		{"qqq", nil},
		{"mmm", nil},
		{"qsq", []span{{n, 2 * n}}},
		{"qsmsq", []span{{n, 4 * n}}},
		{"qsmq", []span{{n, 3 * n}}},
		{"qms", []span{{2 * n, 3 * n}}},
		{"sqs", []span{{0, n}, {2 * n, 3 * n}}},
	} {
		if got := spans(frames(test.pattern, 10), len(test.pattern)*n); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.pattern, got, test.want)
		}
	}
}

func TestSpansHaveALeastLengthOfSpeechAndOfSilence(t *testing.T) {
	speech := func(n int) []float32 { return frames("s", n) }
	silence := func(n int) []float32 { return frames("q", n) }
	for _, test := range []struct {
		name          string
		probabilities []float32
		want          int
	}{
		{"7 frames of speech are 224 ms", slices.Concat(silence(5), speech(7), silence(9)), 0},
		{"8 frames are 256 ms", slices.Concat(silence(5), speech(8), silence(9)), 1},
		{"7 frames at the end", slices.Concat(silence(5), speech(7)), 0},
		{"4 frames of silence are gone through", slices.Concat(speech(9), silence(4), speech(9), silence(9)), 1},
		{"5 frames are heard to be over 100 ms", slices.Concat(speech(9), silence(5), speech(9), silence(9)), 2},
	} {
		if got := spans(test.probabilities, len(test.probabilities)*frameSamples); len(got) != test.want {
			t.Errorf("%s: got %v, want %d", test.name, got, test.want)
		}
	}
}

func TestPaddingNeitherOverlapsNorLeavesTheSound(t *testing.T) {
	for _, test := range []struct{ found, want []span }{
		{[]span{{1000, 5000}}, []span{{1000 - speechPadding, 5000 + speechPadding}}},
		{[]span{{100, 9900}}, []span{{0, 10000}}},
		{[]span{{1000, 5000}, {5001, 8000}}, []span{{1000 - speechPadding, 5000}, {5000, 8000 + speechPadding}}},
		{[]span{{1000, 5000}, {5600, 8000}}, []span{{1000 - speechPadding, 5300}, {5300, 8000 + speechPadding}}},
		{nil, []span{}},
	} {
		if got := pad(test.found, 10000); !slices.Equal(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.found, got, test.want)
		}
	}
}

// vadBox answers that a frame is speech when its first new sample is over 0.5, and counts in the state.
func vadBox(t *testing.T) *box {
	return &box{answer: func(r *edgewise.Request) ([]edgewise.Tensor, error) {
		window, shape := input(t, r, "input")
		state, stateShape := input(t, r, "state")
		if !shape.Equal(edgewise.Shape{1, 576}) || !stateShape.Equal(edgewise.Shape{2, 1, 128}) {
			t.Errorf("a request of %v and %v", shape, stateShape)
		}
		p := float32(0.05)
		if window[contextSamples] > 0.5 {
			p = 0.95
		}
		state[0]++
		return []edgewise.Tensor{floats("output", []float32{p}, 1, 1), floats("stateN", state, 2, 1, 128)}, nil
	}}
}

func TestFindCarriesContextAndState(t *testing.T) {
	b := vadBox(t)
	samples := make([]float32, 2*frameSamples+100)
	for i := range samples {
		samples[i] = float32(i) / 10000
	}
	v := NewVAD(b, "vad")
	var done []int
	v.Progress = func(n, total int) { done = append(done, n, total) }
	if _, err := v.Find(context.Background(), samples); err != nil {
		t.Fatal(err)
	}
	if len(b.requests) != 3 || !slices.Equal(done, []int{1, 3, 2, 3, 3, 3}) {
		t.Fatalf("%d requests, progress %v, want 3", len(b.requests), done)
	}
	for n, r := range b.requests {
		window, _ := input(t, r, "input")
		state, _ := input(t, r, "state")
		if state[0] != float32(n) || r.Model.Name != "vad" {
			t.Errorf("request %d to %v has state %v", n, r.Model, state[0])
		}
		for i, got := range window {
			at, want := n*frameSamples+i-contextSamples, float32(0)
			if at >= 0 && at < len(samples) {
				want = samples[at]
			}
			if got != want {
				t.Fatalf("request %d: sample %d is %v, want %v", n, i, got, want)
			}
		}
		for _, in := range r.Inputs {
			if in.Name == "sr" && (in.Type != edgewise.Int64 || binary.LittleEndian.Uint64(in.Data) != SpeechRate) {
				t.Errorf("request %d: the rate is %v", n, in)
			}
		}
	}
}

func TestFindGivesSeconds(t *testing.T) {
	samples := make([]float32, 3*SpeechRate)
	for i := range SpeechRate {
		samples[SpeechRate+i] = 1
	}
	speech, err := NewVAD(vadBox(t), "vad").Find(context.Background(), samples)
	if err != nil {
		t.Fatal(err)
	}
	if len(speech.Segments) != 1 || speech.Seconds != 3 || !near(speech.Highest, 0.95, 1e-6) {
		t.Fatalf("found %+v", speech)
	}
	if s := speech.Segments[0]; !near(s.Start, 1, 0.065) || !near(s.End, 2, 0.065) {
		t.Errorf("speech from %v to %v, want 1 to 2", s.Start, s.End)
	}
	if got := speech.String(); !strings.Contains(got, "speech ") || !strings.Contains(got, "of 3.00 s are speech; highest probability 0.95") {
		t.Errorf("printed as %q", got)
	}
	speech, err = NewVAD(vadBox(t), "vad").Find(context.Background(), make([]float32, SpeechRate))
	if err != nil || speech.Segments == nil || len(speech.Segments) != 0 || !strings.HasPrefix(speech.String(), "no speech found\n") {
		t.Errorf("in silence: %+v, %v", speech, err)
	}
}

func TestFindRefusesAnEmptySound(t *testing.T) {
	_, err := NewVAD(vadBox(t), "vad").Find(context.Background(), nil)
	if err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("got %v, want an invalid error", err)
	}
}

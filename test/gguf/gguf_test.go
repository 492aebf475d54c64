package gguf

import "testing"

func TestWithoutNoiseTheModelFollowsItsLine(t *testing.T) {
	t.Parallel()
	text, generated, margin := New(1, 0).Greedy("say xyz", len(Line))
	if want := Line[26:] + Line[:26]; string(text) != want || generated != len(Line) || margin < 1 {
		t.Errorf("got %q of %d tokens with margin %v, want %q", text, generated, margin, want)
	}
}

func TestTheModelEndsAfterAnExclamationMark(t *testing.T) {
	t.Parallel()
	if text, generated, _ := New(1, 0).Greedy("stop!", 10); generated != 0 {
		t.Errorf("got %q", text)
	}
}

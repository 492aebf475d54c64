package httpapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSpanGivesEveryInferenceItsTimeAndLittleMore(t *testing.T) {
	const timeout = 64 * time.Second
	synctest.Test(t, func(t *testing.T) {
		base, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &span{base: base, timeout: timeout}
		contexts := map[context.Context]bool{}
		for range 1000 {
			ctx := s.begin(time.Now())
			contexts[ctx] = true
			deadline, ok := ctx.Deadline()
			if got := time.Until(deadline); !ok || got < timeout || got > timeout+timeout/slackShare {
				t.Fatalf("an inference gets %v, want %v to %v", got, timeout, timeout+timeout/slackShare)
			}
			time.Sleep(timeout / slackShare / 10)
		}
		if n := len(contexts); n < 99 || n > 101 {
			t.Errorf("1000 inferences at ten a span have %d contexts", n)
		}
		ctx := s.begin(time.Now())
		<-ctx.Done()
		if ctx.Err() != context.DeadlineExceeded {
			t.Errorf("after its time a context ends with %v", ctx.Err())
		}
		last := s.begin(time.Now())
		cancel()
		if last.Err() != context.Canceled {
			t.Errorf("when the base ends a context ends with %v", last.Err())
		}
	})
}

func TestSpanWithoutTimeoutIsItsBase(t *testing.T) {
	s := &span{base: t.Context()}
	if s.begin(time.Now()) != t.Context() {
		t.Error("an inference without a timeout has a context of its own")
	}
}

package edgewise

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestKindOf(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want Kind
	}{
		{"classified", Errorf("op", NotFound, "no"), NotFound},
		{"wrapped", fmt.Errorf("more: %w", Errorf("op", Busy, "full")), Busy},
		{"the outermost counts", Errorf("a", Invalid, "x: %w", Errorf("b", Corrupt, "y")), Invalid},
		{"joined", errors.Join(errors.New("first"), Errorf("op", Exhausted, "full")), Exhausted},
		{"deadline", fmt.Errorf("waiting: %w", context.DeadlineExceeded), Deadline},
		{"canceled", context.Canceled, Canceled},
		{"unclassified", errors.New("boom"), Internal},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := KindOf(test.err); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestKindsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if k.String() == "" || seen[k.String()] {
			t.Errorf("kind %d is called %q", k, k)
		}
		seen[k.String()] = true
	}
	if len(seen) != 16 {
		t.Errorf("%d kinds", len(seen))
	}
}

func TestMessagesStandAlone(t *testing.T) {
	cause := errors.New("cause")
	err := Errorf("store.Put", Corrupt, "blob: %w", cause)
	if err.Error() != "blob: cause" || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if got := (&Error{Kind: TooLarge}).Error(); got != "too_large" {
		t.Errorf("an error without a message says %q", got)
	}
}

func TestReleaseHappensOnce(t *testing.T) {
	n := 0
	r := &Response{Free: func() { n++ }}
	r.Release()
	r.Release()
	(*Response)(nil).Release()
	(&Response{}).Release()
	if n != 1 {
		t.Errorf("released %d times", n)
	}
}

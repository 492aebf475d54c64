package edgewise_test

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestCallersAreThoseAboveInTheContext(t *testing.T) {
	a := edgewise.WithCaller(t.Context(), "a")
	b, c := edgewise.WithCaller(a, "b"), edgewise.WithCaller(a, "c")
	if edgewise.Calls(t.Context(), "a") || !edgewise.Calls(a, "a") || !edgewise.Calls(b, "a") || !edgewise.Calls(b, "b") ||
		edgewise.Calls(b, "c") || edgewise.Calls(c, "b") || edgewise.Calls(a, "b") {
		t.Error("callers are mixed up")
	}
}

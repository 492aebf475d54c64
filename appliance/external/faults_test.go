package external

import (
	"testing"
	"time"
)

// faults are backends that misbehave, by what they do.
var faults = map[string]func() error{}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: did not come within a minute", what)
		}
	}
}

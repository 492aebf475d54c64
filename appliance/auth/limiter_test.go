package auth

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// TestWhoWaitsAsLongAsToldMayTry waits for as long as a refusal says, at odd moments.
func TestWhoWaitsAsLongAsToldMayTry(t *testing.T) {
	for _, after := range []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			a, _ := claimed(t, newMemory())
			try := func() error {
				_, err := a.Login(admin.Login{User: "anna", Password: "wrong"}, Caller{Address: "192.0.2.9"})
				return err
			}
			for range TriesPerMinute {
				wantKind(t, try(), edgewise.Unauthenticated, "")
				time.Sleep(time.Second)
			}
			time.Sleep(after)
			own, ok := try().(*edgewise.Error)
			if !ok || own.Kind != edgewise.Busy || own.Retry <= 0 {
				t.Fatalf("one try too many: %v", own)
			}
			time.Sleep(own.Retry)
			wantKind(t, try(), edgewise.Unauthenticated, "")
		})
	}
}

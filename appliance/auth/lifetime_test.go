package auth

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

func TestWhatGoesOnEndsWithinASecondOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 2 * time.Hour
		a, anna := claimed(t, newMemory())
		a.cfg.Times = func() (time.Duration, time.Duration) { return idle, DefaultSession }
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			a.Watch(ctx)
		}()
		made, err := a.CreateKey(admin.KeyNew{Name: "short", Rights: []string{"infer"}, Expires: time.Now().Add(time.Hour)},
			&edgewise.Principal{Rights: edgewise.AllRights})
		if err != nil {
			t.Fatal(err)
		}
		camera, _, err := a.Bearer(made.Secret, false)
		if err != nil {
			t.Fatal(err)
		}
		session, err := a.Person(anna.Token)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			who   *edgewise.Principal
			lasts time.Duration
		}{{camera, time.Hour}, {session, idle}} {
			begun := time.Now()
			<-test.who.Lifetime.Done()
			if took := time.Since(begun); took > test.lasts+time.Second {
				t.Errorf("%s ended after %v, want %v", test.who.Actor(), took, test.lasts)
			}
			if err := test.who.Revoked(); edgewise.KindOf(err) != edgewise.Unauthenticated {
				t.Errorf("%s: %v", test.who.Actor(), err)
			}
		}
		stop()
		<-watched
	})
}

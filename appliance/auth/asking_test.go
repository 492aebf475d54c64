package auth

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

func TestAPersonAsksWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := claimed(t, newMemory())
		anna, again, vera := &edgewise.Principal{Kind: "person", Name: "anna", Session: "1"},
			&edgewise.Principal{Kind: "person", Name: "Anna", Session: "2"}, &edgewise.Principal{Kind: "person", Name: "vera"}
		for range AskBurst {
			done, err := a.Ask(anna)
			if err != nil {
				t.Fatal(err)
			}
			done()
		}
		_, err := a.Ask(again)
		wantKind(t, err, edgewise.Busy, "may ask 50 times a second")
		if _, err := a.Ask(vera); err != nil {
			t.Errorf("another person is refused: %v", err)
		}
		time.Sleep(time.Second)
		for range AskRate {
			done, err := a.Ask(again)
			if err != nil {
				t.Fatal(err)
			}
			done()
		}
		_, err = a.Ask(again)
		wantKind(t, err, edgewise.Busy, "may ask 50 times a second")
	})
}

func TestAPersonHasABoundedNumberOfRequestsInProgress(t *testing.T) {
	a, _ := claimed(t, newMemory())
	anna := &edgewise.Principal{Kind: "person", Name: "anna"}
	var last func()
	for range AskTogether {
		done, err := a.Ask(anna)
		if err != nil {
			t.Fatal(err)
		}
		last = done
	}
	_, err := a.Ask(anna)
	wantKind(t, err, edgewise.Busy, "8 requests in progress")
	last()
	if _, err := a.Ask(anna); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestNothingIsKeptOfAPersonWhoIsDeleted(t *testing.T) {
	a, _ := claimed(t, newMemory())
	if _, err := a.CreateUser(admin.UserNew{Name: "vera", Role: RoleViewer, Password: goodPassword}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Ask(&edgewise.Principal{Kind: "person", Name: "vera"}); err != nil {
		t.Fatal(err)
	}
	if err := a.DeleteUser("vera"); err != nil {
		t.Fatal(err)
	}
	if len(a.askers) != 0 {
		t.Errorf("%d people are remembered", len(a.askers))
	}
}

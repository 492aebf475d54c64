package appliance

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// again runs a box on a data folder of an earlier one, and logs anna in.
func again(t *testing.T, folder string) (*running, *visitor) {
	t.Helper()
	h := runBox(t, func(c *config.Config) { c.DataDir = folder })
	if h.welcome.ClaimCode != "" {
		return h, h.claim()
	}
	anna := h.visitor()
	var s admin.Session
	if status, text := anna.ask("POST", "/api/v1/session", admin.Login{User: "anna", Password: annasPassword}, &s); status != 200 {
		t.Fatalf("login: %d %s", status, text)
	}
	anna.header.Set("X-CSRF-Token", s.CSRF)
	return h, anna
}

func TestTheHistoryIsReadAfterARestart(t *testing.T) {
	folder := t.TempDir()
	t.Run("before", func(t *testing.T) {
		h, _ := again(t, folder)
		for range 20 {
			h.app.monitor.History.Note(edgewise.ModelID{Name: "cat", Version: 3}, activity.Outcome{
				Took: time.Millisecond, Caller: &edgewise.Principal{Kind: "key", Name: "camera"},
			})
		}
	})
	_, anna := again(t, folder)
	const path = "/api/v1/statistics/history"
	var found admin.StoredHistory
	eventually(t, "the history", func() bool {
		status, text := anna.ask("GET", path+"?seconds=86400&step=3600&by=caller&model=cat", nil, &found)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		return len(found.Series) > 0
	})
	if s := found.Series[0]; s.Caller != "key:camera" || len(s.Requests) != 24 || len(found.Measured) != 24 {
		t.Errorf("%+v", found)
	}
	status, text := anna.ask("GET", path+".csv?seconds=604800&step=3600&by=version", nil, nil)
	if status != 200 || !strings.Contains(text, ",cat,3,,") {
		t.Errorf("%d %s", status, text)
	}
	for query, want := range map[string]int{
		"?step=90": 400, "?by=day": 400, "?seconds=-1": 400, "?version=0": 400, "?version=3&ago=86400": 200,
	} {
		if status, text := anna.ask("GET", path+query, nil, nil); status != want {
			t.Errorf("%s: %d %s, want %d", query, status, text, want)
		}
	}
}

func TestTheHistoryIsForThoseWhoMayRead(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	reading := h.key(anna, admin.KeyNew{Name: "reading", Rights: []string{"read"}})
	running := h.key(anna, admin.KeyNew{Name: "running", Rights: []string{"infer"}})
	bound := h.key(anna, admin.KeyNew{Name: "bound", Rights: []string{"read"}, Models: []string{"cat"}})
	viewer := h.login(anna, "viewer")
	for _, path := range []string{"/api/v1/statistics/history", "/api/v1/statistics/history.csv"} {
		for who, want := range map[*visitor]int{
			viewer: http.StatusOK, reading: http.StatusOK, running: http.StatusForbidden, bound: http.StatusForbidden,
		} {
			if status, text := who.ask("GET", path, nil, nil); status != want {
				t.Errorf("%s by %v: %d %s, want %d", path, who.header, status, text, want)
			}
		}
	}
}

package appliance

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// TestAlertsOfTheConfigurationReachAWebhook takes the URL of a file, and a disk rule that any disk breaks.
func TestAlertsOfTheConfigurationReachAWebhook(t *testing.T) {
	received := make(chan admin.AlertMessage, 8)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m admin.AlertMessage
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		received <- m
	}))
	defer hook.Close()
	secret := filepath.Join(t.TempDir(), "webhook")
	if err := os.WriteFile(secret, []byte(hook.URL+"/planted-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := runBox(t, func(c *config.Config) {
		c.Alerts.Rules, c.Alerts.WebhookFile = []string{"disk:0:1", "error_rate:5:3:cat"}, secret
	})
	anna := h.claim()
	h.app.alerts.Minute(nil)
	if m := <-received; len(m.Alerts) != 1 || m.Alerts[0].Kind != admin.AlertDisk {
		t.Errorf("%+v", m)
	}
	var shown admin.Alerts
	_, text := anna.ask("GET", "/api/v1/alerts", nil, &shown)
	if strings.Contains(text, "planted-secret") || len(shown.Rules) != 2 || shown.Rules[1] != (admin.AlertRule{
		Kind: admin.AlertErrorRate, Above: 5, Minutes: 3, Model: "cat",
	}) || len(shown.Active) != 1 {
		t.Errorf("%s", text)
	}
	var system admin.System
	anna.ask("GET", "/api/v1/system", nil, &system)
	found := false
	for _, w := range system.Warnings {
		found = found || w.Code == "alert" && strings.Contains(w.Text, "of the disk are in use")
	}
	if !found {
		t.Errorf("warnings %+v", system.Warnings)
	}
	_, keys := anna.ask("GET", "/api/v1/configuration", nil, nil)
	if strings.Contains(keys, "planted-secret") || strings.Contains(h.log.String(), "planted-secret") {
		t.Error("the configuration or the log shows the webhook")
	}
}

func TestAlertsAreChangedByAdministratorsAndSeenByOperators(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	operator, viewer := h.login(anna, "operator"), h.login(anna, "viewer")
	change := map[string]any{
		"rules":       []any{map[string]any{"kind": "p99", "above": 100, "minutes": 5, "model": ""}},
		"webhook_url": "http://127.0.0.1:1/planted-secret",
	}
	for who, want := range map[*visitor][3]int{anna: {200, 200, 200}, operator: {200, 403, 403}, viewer: {403, 403, 403}} {
		for i, ask := range []struct {
			method, path string
			body         any
		}{{"GET", "/api/v1/alerts", nil}, {"PUT", "/api/v1/alerts", change}, {"POST", "/api/v1/alerts/test", nil}} {
			status, text := who.ask(ask.method, ask.path, ask.body, nil)
			if status != want[i] || strings.Contains(text, "planted-secret") {
				t.Errorf("%s %s: %d %s, want %d", ask.method, ask.path, status, text, want[i])
			}
		}
	}
	_, text := anna.ask("GET", "/api/v1/audit", nil, nil)
	if !strings.Contains(text, "alerts.change") || strings.Contains(text, "planted-secret") {
		t.Errorf("audit %s", text)
	}
	change["rules"] = []any{map[string]any{"kind": "disk", "above": 120, "minutes": 5, "model": ""}}
	if status, text := anna.ask("PUT", "/api/v1/alerts", change, nil); status != 400 || !strings.Contains(text, `"field":"rules"`) {
		t.Errorf("%d %s", status, text)
	}
}

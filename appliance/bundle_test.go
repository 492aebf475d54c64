package appliance

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// TestASupportBundleHoldsNoSecrets plants secrets wherever the appliance takes some, and in its log. The configuration
// that administrators see has none either.
func TestASupportBundleHoldsNoSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "webhook")
	if err := os.WriteFile(file, []byte("http://127.0.0.1:1/planted-webhook"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := runBox(t, func(c *config.Config) {
		c.HTTP.RestrictedAPI, c.Alerts.WebhookFile = []string{"trace:x-key=planted-header"}, file
		c.Alerts.EmailServer, c.Alerts.EmailUser, c.Alerts.EmailPasswordFile = "127.0.0.1:1", "box", file
		c.Trace.URL = "http://user:planted-trace@127.0.0.1:1/v1/traces"
	})
	anna := h.claim()
	var key admin.KeySecret
	if status, text := anna.ask("POST", "/api/v1/keys", admin.KeyNew{Name: "camera", Rights: []string{"read"}}, &key); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	h.app.logger.Warn("a step says Authorization: Bearer planted-bearer", "body", `{"password":"planted-body","token": "planted-token"}`,
		"key", key.Secret, "pem", "-----BEGIN PRIVATE KEY-----\nplanted-pem\n-----END PRIVATE KEY-----")
	status, text := anna.ask("GET", "/api/v1/support-bundle", nil, nil)
	archive, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if status != 200 || err != nil {
		t.Fatalf("%d %v", status, err)
	}
	var all strings.Builder
	for _, f := range archive.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil || len(content) == 0 {
			t.Errorf("%s: %d bytes, %v", f.Name, len(content), err)
		}
		all.Write(content)
	}
	for _, secret := range []string{"planted", key.Secret, annasPassword, anna.header.Get("X-CSRF-Token"), "PRIVATE KEY"} {
		if at := strings.Index(all.String(), secret); at >= 0 {
			t.Errorf("the bundle holds a secret: ...%s", all.String()[max(0, at-80):at+len(secret)])
		}
	}
	for _, want := range []string{"a step says", `"platform"`, "http.restricted_api", "goroutine profile"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("the bundle lacks %s", want)
		}
	}
	status, text = anna.ask("GET", "/api/v1/configuration", nil, nil)
	if status != 200 || strings.Contains(text, "planted") || !strings.Contains(text, "http://user:(secret)@127.0.0.1:1/v1/traces") {
		t.Errorf("the configuration holds a secret, or a key is missing: %d", status)
	}
	if status, _ := h.login(anna, "operator").ask("GET", "/api/v1/support-bundle", nil, nil); status != 403 {
		t.Errorf("an operator gets %d", status)
	}
}

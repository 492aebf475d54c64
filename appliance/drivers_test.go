package appliance

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
	"github.com/edgewise-ai/edgewise/test/fakesystem"
)

// sendDriver sends a driver extension.
func (v *visitor) sendDriver(content []byte) (int, string) {
	t := v.running.t
	t.Helper()
	req, err := http.NewRequest("POST", v.running.base+"/api/v1/system/drivers", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = v.header.Clone()
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, text.String()
}

// TestDriversAreInstalledByThePage installs, takes back and removes driver extensions over REST, and reads the audit
// log.
func TestDriversAreInstalledByThePage(t *testing.T) {
	m := newMachine(t, update.Packaging{Kind: update.Image, Version: "1.0.0"})
	content := bytes.Repeat([]byte("a file system "), 100_000)
	m.start(t, func(t *testing.T, h *running, anna *visitor) {
		good := fakesystem.Driver(m.sign, "25.0.7", content, nil)
		for name, tt := range map[string]struct {
			text   []byte
			status int
			want   string
		}{
			"cut off":    {good[:len(good)-1], 400, "cut off"},
			"changed":    {append(bytes.Clone(good[:len(good)-1]), 'x'), 500, "was changed"},
			"not signed": {fakesystem.Driver(func([]byte) string { return "" }, "1", content, nil), 403, "minisign"},
			"for another system": {fakesystem.Driver(m.sign, "1", content, func(f *driver.Manifest) { f.Fits.Level = "debian-12" }), 409,
				"debian-12"},
		} {
			if status, text := anna.sendDriver(tt.text); status != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("%s: %d %s: want %d with %q", name, status, text, tt.status, tt.want)
			}
		}
		for _, version := range []string{"25.0.7", "25.1.0"} {
			if status, text := anna.sendDriver(fakesystem.Driver(m.sign, version, content, nil)); status != 200 {
				t.Fatalf("%s: %d %s", version, status, text)
			}
		}
		var d admin.Drivers
		status, text := anna.ask("GET", "/api/v1/system/drivers", nil, &d)
		if status != 200 || !d.Possible || !d.Restart || len(d.Installed) != 2 || d.Installed[0].Version != "25.1.0" ||
			!d.Installed[0].Next || d.Installed[1].Next {
			t.Errorf("listed: %d %s", status, text)
		}
		status, text = anna.ask("POST", "/api/v1/system/drivers/mesa/rollback", nil, &d)
		if status != 200 || d.Installed[0].Version != "25.0.7" {
			t.Errorf("rollback: %d %s", status, text)
		}
		if status, text := anna.ask("DELETE", "/api/v1/system/drivers/mesa", nil, &d); status != 200 || len(d.Installed) != 0 {
			t.Errorf("remove: %d %s", status, text)
		}
		if status, text := anna.ask("DELETE", "/api/v1/system/drivers/mesa", nil, nil); status != 404 {
			t.Errorf("remove twice: %d %s", status, text)
		}
		status, log := anna.ask("GET", "/api/v1/audit", nil, nil)
		for _, action := range []string{"system.driver_install", "system.driver_rollback", "system.driver_remove"} {
			if status != 200 || !strings.Contains(log, action) {
				t.Errorf("the audit log has no %s: %d", action, status)
			}
		}
	})
}

// TestDriversOfASystemThatWasNotFlashed is refused with what is used instead.
func TestDriversOfASystemThatWasNotFlashed(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	var d admin.Drivers
	status, text := anna.ask("GET", "/api/v1/system/drivers", nil, &d)
	if status != 200 || d.Possible || !strings.Contains(d.Problem, "drivers of its system") {
		t.Errorf("listed: %d %s", status, text)
	}
	if status, text := anna.sendDriver([]byte("x")); status != 501 || !strings.Contains(text, "flashed") {
		t.Errorf("sent: %d %s", status, text)
	}
}

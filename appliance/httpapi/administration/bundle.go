package administration

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/pprof"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/appliance/history"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Bounds of a support bundle.
const (
	bundleLogs     = 10_000
	bundleRequests = 500
)

// bundle answers with a zip archive of what support needs, without secrets: GET /api/v1/support-bundle.
func (h *handlers) bundle(r *httpapi.Request) error {
	var archive bytes.Buffer
	out := zip.NewWriter(&archive)
	for _, part := range h.bundleParts() {
		text, err := part.text()
		if err != nil {
			text = []byte(err.Error()) // the other parts are of use, too
		}
		w, err := out.CreateHeader(&zip.FileHeader{Name: part.name, Method: zip.Deflate, Modified: time.Now()})
		if err == nil {
			_, err = w.Write(redact(text))
		}
		if err != nil {
			return edgewise.Errorf("administration.bundle", edgewise.Internal, "%w", err)
		}
	}
	if err := out.Close(); err != nil {
		return edgewise.Errorf("administration.bundle", edgewise.Internal, "%w", err)
	}
	r.Set(fiber.HeaderContentType, "application/zip")
	setFilename(r, fmt.Sprintf("%s-support-%s.zip", h.Box.Settings().Name, time.Now().UTC().Format("20060102-1504")))
	return r.Send(archive.Bytes())
}

// bundlePart is a file of a support bundle.
type bundlePart struct {
	name string
	text func() ([]byte, error)
}

func (h *handlers) bundleParts() []bundlePart {
	return []bundlePart{
		{"system.json", encoded(h.Box.System)},
		{"devices.json", encoded(h.Box.Devices)},
		{"settings.json", encoded(h.Box.Settings)},
		{"configuration.txt", h.bundleConfiguration},
		{"certificate.json", encoded(h.Box.TLS)},
		{"versions.json", encoded(h.Statuses)},
		{"alerts.json", encoded(h.Alerts.Get)},
		{"failed-requests.json", encoded(func() any {
			return h.Requests.List(activity.RequestQuery{Failed: true, Limit: bundleRequests})
		})},
		{"log.txt", h.bundleLog},
		{"history.csv", h.bundleHistory},
		{"goroutines.txt", func() ([]byte, error) {
			var b bytes.Buffer
			err := pprof.Lookup("goroutine").WriteTo(&b, 1)
			return b.Bytes(), err
		}},
	}
}

func encoded[T any](look func() T) func() ([]byte, error) {
	return func() ([]byte, error) { return json.MarshalIndent(look(), "", "  ") }
}

// bundleConfiguration lists the keys that differ from their defaults.
func (h *handlers) bundleConfiguration() ([]byte, error) {
	var b bytes.Buffer
	for _, k := range h.Box.Configuration() {
		if k.Value != k.Default {
			fmt.Fprintf(&b, "%s: %s\n", k.Name, k.Value)
		}
	}
	return b.Bytes(), nil
}

func (h *handlers) bundleLog() ([]byte, error) {
	var b bytes.Buffer
	for _, line := range h.Logs.List(activity.LogQuery{Limit: bundleLogs}).Lines {
		fmt.Fprintf(&b, "%s %s %s", line.Time.Format(time.RFC3339Nano), line.Level, line.Message)
		for _, f := range line.Fields {
			fmt.Fprintf(&b, " %s=%q", f.Key, f.Value)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

func (h *handlers) bundleHistory() ([]byte, error) {
	found, err := h.Stored(history.Query{Range: 7 * 24 * 3600, Step: 3600, By: history.ByVersion})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = history.WriteCSV(&b, &found)
	return b.Bytes(), err
}

const hidden = "(secret)"

// redact replaces what looks like a secret: logs repeat what clients and models say.
func redact(text []byte) []byte {
	for _, pattern := range []string{
		`ek_[A-Za-z0-9_-]{6,}`, `(?i)\b(?:bearer|basic) +[A-Za-z0-9._~+/=-]{6,}`, `://[^/\s:@"]*:[^/\s@"]+@`,
		`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
		`(?i)(?:password|passwd|secret|token|api_?key)\\?"?\s*[:=]\s*\\?"?[^\s",}\\]+`,
	} {
		text = regexp.MustCompile(pattern).ReplaceAll(text, []byte(hidden))
	}
	return text
}

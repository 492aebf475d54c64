//go:build cloud

package test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// TestFilesAreSentToAStore sends a report as a box does, and again in its place.
func TestFilesAreSentToAStore(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store) {
		p, folder, url := startProgram(t, s.env), t.TempDir(), s.urls[0]+"/reports/canary"
		for _, text := range []string{"first", "second, and longer"} {
			must(t, os.WriteFile(filepath.Join(folder, "box-a.json"), []byte(text), 0o600))
			must(t, p.Do(&fetch.Request{
				Command: fetch.Put, URL: url, Folder: folder, Files: []fetch.Entry{{Name: "box-a.json", Size: int64(len(text))}},
			}, func(*fetch.Reply) error { return nil }))
			got, err := s.bucket.ReadAll(context.Background(), "models/reports/canary/box-a.json")
			if err != nil || string(got) != text {
				t.Errorf("%v: %q", err, got)
			}
		}
		entries, err := p.list(url)
		if err != nil || len(entries) != 1 || entries[0].Name != "box-a.json" {
			t.Errorf("%v: %+v", err, entries)
		}
	})
}

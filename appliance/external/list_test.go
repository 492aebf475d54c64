package external

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestTheListSaysWhyABackendCannotBeUsed(t *testing.T) {
	place := t.TempDir()
	for name, text := range map[string]string{
		"good":    "protocol: 1\ncommand: [/bin/sh, serve]\nplatforms: [good_a, good_b]\nfile: model.good\nmemory: 64MiB",
		"gone":    "protocol: 1\ncommand: [\"${backend}/serve\"]",
		"strange": "protocol: 7\ncommand: [/bin/sh]",
		"again":   "protocol: 1\ncommand: [/bin/sh]\nplatforms: [good_a]",
		"zopen":   "protocol: 1\ncomand: [/bin/sh]",
	} {
		folder := filepath.Join(place, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, ManifestFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	missing := filepath.Join(place, "none")
	manifests, others := Discover([]string{place, missing})
	got := New(Config{Manifests: manifests, Unusable: others}).List(t.Context())
	want := []struct {
		name, problem string
	}{
		{"again", ""},
		{"gone", "there is no program " + filepath.Join(place, "gone", "serve")},
		{"good", `platform "good_a" is that of the backend in ` + filepath.Join(place, "again")},
		{"strange", "protocol: want 1, got 7"},
		{"zopen", `"comand"`},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		g := got[i]
		if g.Name != w.name || g.Usable != (w.problem == "") || !strings.Contains(g.Problem, w.problem) || g.Platforms == nil ||
			g.Folder != filepath.Join(place, w.name) {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	if l := got[0].Limits; l == nil || l.Memory != 2<<30 || l.Threads != 1 || l.LoadSeconds != 300 {
		t.Errorf("%+v", got[0])
	}
}

// TestServersAreAskedAtOnce has servers of which none answers before all have been asked.
func TestServersAreAskedAtOnce(t *testing.T) {
	const servers = 4
	var asked sync.WaitGroup
	asked.Add(servers)
	var manifests []*Manifest
	for n := range servers {
		var once sync.Once
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			once.Do(asked.Done)
			asked.Wait()
		}))
		defer server.Close()
		m := &Manifest{Name: fmt.Sprintf("s%d", n)}
		m.Address = server.URL
		manifests = append(manifests, m)
	}
	for _, b := range New(Config{Manifests: manifests}).List(t.Context()) {
		if !b.Usable {
			t.Errorf("%s: %s", b.Name, b.Problem)
		}
	}
}

package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// folder is a Kept whose seals are counted.
type folder struct {
	path    string
	seals   int
	cleared int
}

func (f *folder) Path() string { return f.path }
func (f *folder) Seal()        { f.seals++ }

func (f *folder) Clear() bool {
	f.cleared++
	return os.Remove(filepath.Join(f.path, "engine")) == nil
}

func TestAModelIsLoadedOnceMoreWithoutWhatWasCompiledBefore(t *testing.T) {
	for _, test := range []struct {
		name, engine string // what was kept; "": nothing
		load         string
		after        string
		err          string // in part; "": none
		cleared      int
	}{
		{"at first", "", "", "good", "", 0},
		{"again", "good", "", "good", "", 0},
		{"one that the provider refuses", "refuse", "", "good", "", 1},
		{"one at which the process dies", "crash", "", "good", "", 1},
		{"a device that is lost", "lost", "", "lost", "the device is lost", 0},
		{"a model that cannot be loaded at all", "", "crash", "", "died", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := &folder{path: t.TempDir()}
			if test.engine != "" {
				if err := os.WriteFile(filepath.Join(kept.path, "engine"), []byte(test.engine), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := setUp(fakeOptions{Load: test.load})
			c.Device = func(*edgewise.Version, edgewise.Device) Place { return Place{Kept: kept} }
			v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{Name: "m", Platform: "fake"}}
			i, err := New(c).Load(context.Background(), v, t.TempDir(), edgewise.Device{Kind: edgewise.GPU})
			seals := 0
			if err == nil {
				seals = 1
				defer func() { _ = i.Close() }()
			}
			text, _ := os.ReadFile(filepath.Join(kept.path, "engine"))
			wrong := (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err)
			if wrong || string(text) != test.after || kept.cleared != test.cleared || kept.seals != seals {
				t.Errorf("%v; %q is kept, cleared %d times, sealed %d times", err, text, kept.cleared, kept.seals)
			}
		})
	}
}

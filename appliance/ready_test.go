package appliance

import (
	"log/slog"
	"testing"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/repository"
)

// TestABoxIsReadyWhenItsRepositoriesHaveBeenLoaded asks a box without strict readiness that has begun to load.
func TestABoxIsReadyWhenItsRepositoriesHaveBeenLoaded(t *testing.T) {
	for _, test := range []struct {
		name    string
		folders []string
		ready   bool
	}{
		{"a model repository", []string{t.TempDir()}, false},
		{"no model repository", nil, true},
	} {
		c := config.Repository{Folders: test.folders}
		e := &engine{repositories: repository.New(c, nil, nil, modelconfig.Defaults{}, slog.New(slog.DiscardHandler))}
		e.started.Store(true)
		if !e.Live() || e.Ready() != test.ready {
			t.Errorf("%s: live %v, ready %v, want %v", test.name, e.Live(), e.Ready(), test.ready)
		}
	}
}

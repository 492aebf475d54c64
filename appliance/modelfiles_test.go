package appliance

import (
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// TestEachFormatHasABackend compares the two lists of backends: that in Formats with that in App.servingConfig.
func TestEachFormatHasABackend(t *testing.T) {
	a, _ := newApp(t, testConfig(t))
	defer func() { _ = a.store.Close() }()
	var loaded []string
	for _, b := range a.servingConfig(coreBudget(a.config), a.logger).Backends {
		for _, f := range b.Formats() {
			loaded = append(loaded, f.Platform)
		}
	}
	for _, f := range Formats() {
		if f.Platform == ensemble.Platform {
			continue
		}
		if _, err := a.serving.Backend(&edgewise.Model{Platform: f.Platform}); err != nil {
			t.Errorf("Formats has platform %q, for which App.servingConfig has no backend", f.Platform)
		}
	}
	for _, platform := range loaded {
		if !slices.ContainsFunc(Formats(), func(f edgewise.Format) bool { return f.Platform == platform }) {
			t.Errorf("App.servingConfig has a backend for platform %q, which Formats lacks", platform)
		}
	}
}

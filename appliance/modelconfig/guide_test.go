package modelconfig

import (
	"os"
	"strings"
	"testing"
)

// TestTheGuidesNameEveryParameter looks for each parameter that the box obeys in the guides that tell of them.
func TestTheGuidesNameEveryParameter(t *testing.T) {
	var guides strings.Builder
	for _, path := range []string{"../../docs/guides/model-configuration.md", "../../docs/gpu.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		guides.Write(text)
	}
	for name := range backendParameters {
		if !strings.Contains(guides.String(), "`"+name+"`") {
			t.Errorf("no guide names %s", name)
		}
	}
}

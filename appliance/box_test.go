package appliance

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// TestABoxIsCalledAsItsMachineMayBe has a host name of as many bytes as Linux allows: settings that were never changed can be saved.
func TestABoxIsCalledAsItsMachineMayBe(t *testing.T) {
	for _, host := range []string{"edge", strings.Repeat("h", 64), strings.Repeat("ü", 64)} {
		if err := checkSettings(admin.Settings{Name: boxName(host), SessionIdle: minSessionIdle, Session: minSession}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

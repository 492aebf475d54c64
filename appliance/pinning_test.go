package appliance

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/host"
)

func TestRunsArePinnedToCoresOnlyWithTheOption(t *testing.T) {
	numbers := host.Cores("/")
	for _, pin := range []bool{false, true} {
		c := config.Default()
		c.Engine.PinCores, c.ONNX.Threads = pin, len(numbers)
		lease := coreBudget(c).Open(edgewise.ModelID{}, 1).Lease()
		want := 0
		if pin && len(numbers) > 1 {
			want = numbers[0] + 1
		}
		if !lease.Try() || lease.Core() != want {
			t.Errorf("engine.pin_cores %v: the lease has core %d, want %d", pin, lease.Core(), want)
		}
	}
}

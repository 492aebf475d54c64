package serving

import (
	"context"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// answering is a Servable that answers everything.
type answering struct{ edgewise.Servable }

func (answering) Infer(context.Context, *edgewise.Request) (*edgewise.Response, error) {
	return &edgewise.Response{}, nil
}

// slowedGPU is a GPU that is throttled for a reason, which may be none.
type slowedGPU struct{ reason *string }

func (slowedGPU) Usable() ([]edgewise.DeviceInfo, error) { return []edgewise.DeviceInfo{{}}, nil }

func (g slowedGPU) Slowed(edgewise.Device) string { return *g.reason }

func (slowedGPU) Identity() []string { return nil }

func TestTheLowestPriorityStandsBackWhileAGPUIsThrottled(t *testing.T) {
	reason := ""
	l := New(Config{Devices: slowedGPU{&reason}})
	throttle := func(v *edgewise.Version, devices []edgewise.Device) edgewise.Servable {
		loaded := &manager.Loaded{Servable: answering{}}
		l.withThrottle(loaded, v, devices)
		return loaded.Servable
	}
	v := &edgewise.Version{Model: &edgewise.Model{DynamicBatching: &edgewise.DynamicBatching{
		PriorityLevels:       3,
		DefaultPriorityLevel: 2,
	}}}
	gpu := []edgewise.Device{{Kind: edgewise.GPU}}
	s := throttle(v, gpu)
	for _, test := range []struct {
		reason   string
		priority uint64
		served   bool
	}{
		{"", 3, true},
		{"sw_thermal_slowdown", 3, false},
		{"sw_thermal_slowdown", 2, true},
		{"sw_thermal_slowdown", 1, true},
		{"sw_thermal_slowdown", 0, true},
	} {
		reason = test.reason
		_, err := s.Infer(t.Context(), &edgewise.Request{Priority: test.priority})
		if (err == nil) != test.served || err != nil && (edgewise.KindOf(err) != edgewise.Busy ||
			!strings.Contains(err.Error(), "gpu:0 is throttled (sw_thermal_slowdown)")) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	v.Model.DynamicBatching.DefaultPriorityLevel = 3
	if _, err := throttle(v, gpu).Infer(t.Context(), &edgewise.Request{}); edgewise.KindOf(err) != edgewise.Busy {
		t.Errorf("the usual priority is the lowest: %v", err)
	}
	v.Model.DynamicBatching.PriorityLevels = 0
	for _, devices := range [][]edgewise.Device{gpu, {{}}} {
		if _, guarded := throttle(v, devices).(*throttled); guarded {
			t.Error("a model without priorities, or on the CPU, is guarded")
		}
	}
}

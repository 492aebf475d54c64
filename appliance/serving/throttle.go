package serving

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// throttled is a layer in front of a version on GPUs. While one of them works slower than it is asked to, because it
// is too hot or has too little power, requests of the lowest priority are refused, so that the others are answered in
// time.
type throttled struct {
	edgewise.Servable
	id           edgewise.ModelID
	levels       uint64 // of priority; 1 is the highest
	defaultLevel uint64 // of a request that says none
	devices      []edgewise.Device
	slowed       func(edgewise.Device) string
}

// withThrottle puts that layer in front of a version on GPUs that has priority levels.
func (l *Loader) withThrottle(loaded *manager.Loaded, v *edgewise.Version, devices []edgewise.Device) {
	b := v.Model.DynamicBatching
	if devices[0].Kind == edgewise.CPU || b == nil || b.PriorityLevels < 2 {
		return
	}
	loaded.Servable = &throttled{
		loaded.Servable, v.ID, b.PriorityLevels, b.DefaultPriorityLevel, devices, l.config.Devices.Slowed,
	}
}

// Infer refuses a request of the lowest priority while a device is throttled. Error: Busy, with the reason.
func (t *throttled) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	level := req.Priority
	if level == 0 {
		level = t.defaultLevel
	}
	if level < t.levels {
		return t.Servable.Infer(ctx, req)
	}
	for _, d := range t.devices {
		if reason := t.slowed(d); reason != "" {
			return nil, edgewise.Errorf("serving.Infer", edgewise.Busy,
				"model %v: %v is throttled (%s), and requests of the lowest priority, %d, are refused until it is not",
				t.id, d, reason, t.levels)
		}
	}
	return t.Servable.Infer(ctx, req)
}

package appliance

import (
	"context"

	"github.com/edgewise-ai/edgewise"
)

// throttled stands before a version on GPUs. While one of them works slower than it is asked to, because it is too hot or has too little
// power, requests of the lowest priority are refused, so that the others find room.
type throttled struct {
	edgewise.Servable
	id      edgewise.ModelID
	levels  uint64 // of priority; 1 is the highest
	usual   uint64 // of a request that says none
	devices []edgewise.Device
	slowed  func(edgewise.Device) string
}

// withThrottle puts it before a version on GPUs that has priority levels.
func (l *library) withThrottle(s edgewise.Servable, v *edgewise.Version, devices []edgewise.Device) edgewise.Servable {
	b := v.Model.DynamicBatching
	if devices[0].Kind == edgewise.CPU || b == nil || b.PriorityLevels < 2 {
		return s
	}
	return &throttled{s, v.ID, b.PriorityLevels, b.DefaultPriorityLevel, devices, l.config.Slowed}
}

// Infer refuses a request that has to stand back. Error: Busy, with the reason.
func (t *throttled) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	level := req.Priority
	if level == 0 {
		level = t.usual
	}
	if level < t.levels {
		return t.Servable.Infer(ctx, req)
	}
	for _, d := range t.devices {
		if reason := t.slowed(d); reason != "" {
			return nil, edgewise.Errorf("appliance.throttled", edgewise.Busy, "model %v: %v is throttled (%s), and requests of the lowest priority, %d, stand back until it is not", t.id, d, reason, t.levels)
		}
	}
	return t.Servable.Infer(ctx, req)
}

// slowed returns why a GPU is throttled, empty when it is not or does not tell.
func (d *devices) slowed(on edgewise.Device) string {
	for _, info := range d.list() {
		if info.Device == on {
			return info.Telemetry.Throttled()
		}
	}
	return ""
}

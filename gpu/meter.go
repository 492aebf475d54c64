package gpu

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/drm"
	"github.com/edgewise-ai/edgewise/gpu/jetson"
	"github.com/edgewise-ai/edgewise/gpu/nvml"
)

// Meter reads the telemetry of devices from time to time and hands out what it read last, so that nobody waits for a
// slow sensor.
type Meter struct {
	read func(edgewise.DeviceInfo) *edgewise.Telemetry
	last atomic.Pointer[map[edgewise.Device]*edgewise.Telemetry]
}

// NewMeter opens the sources that there are. library is the path of NVML, empty: searched. root is that of the file
// system, empty: "/". missing says why NVML tells nothing; on a Jetson that is in order.
func NewMeter(library, root string) (m *Meter, missing error) {
	root = Config{Root: root}.root()
	board := jetson.Find(root)
	n, missing := nvml.Open(nvml.Candidates(library))
	return &Meter{read: func(d edgewise.DeviceInfo) *edgewise.Telemetry {
		if d.Device.Kind == edgewise.Vulkan {
			return drm.Read(root, d.BusID)
		}
		var t *edgewise.Telemetry
		if n != nil && missing == nil {
			t, _ = n.Read(d.UUID)
		}
		if board != nil {
			t = merge(board.Telemetry(), t)
		}
		return t
	}}, missing
}

// Watch reads the telemetry of devices at once and then again and again until ctx ends.
func (m *Meter) Watch(ctx context.Context, devices []edgewise.DeviceInfo, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		sample := make(map[edgewise.Device]*edgewise.Telemetry, len(devices))
		for _, d := range devices {
			sample[d.Device] = m.read(d)
		}
		m.last.Store(&sample)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Now reads the telemetry of a device, and waits for its sensors; nil when it tells nothing.
func (m *Meter) Now(d edgewise.DeviceInfo) *edgewise.Telemetry { return m.read(d) }

// Last returns what was read last of a device; nil when it tells nothing.
func (m *Meter) Last(on edgewise.Device) *edgewise.Telemetry {
	if sample := m.last.Load(); sample != nil {
		return (*sample)[on]
	}
	return nil
}

// merge adds to what a board tells what NVML tells of its GPU, where the board tells nothing.
func merge(board, n *edgewise.Telemetry) *edgewise.Telemetry {
	if n == nil {
		return board
	}
	for field, other := range map[**float64]*float64{
		&board.Utilization: n.Utilization, &board.MemoryLoad: n.MemoryLoad, &board.Encoder: n.Encoder, &board.Decoder: n.Decoder,
		&board.Temperature: n.Temperature, &board.Power: n.Power, &board.PowerLimit: n.PowerLimit, &board.Energy: n.Energy, &board.Fan: n.Fan,
		&board.ECCErrors: n.ECCErrors, &board.MemoryTotal: n.MemoryTotal, &board.MemoryUsed: n.MemoryUsed,
	} {
		if *field == nil {
			*field = other
		}
	}
	if board.Clocks == nil {
		board.Clocks = n.Clocks
	}
	if board.MaxClocks == nil {
		board.MaxClocks = n.MaxClocks
	}
	board.Slowed = append(board.Slowed, n.Slowed...)
	return board
}

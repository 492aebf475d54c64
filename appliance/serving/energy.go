package serving

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// Energy adds up what the processors and the GPUs of the machine use, as far as they tell. It is safe for concurrent use.
type Energy struct {
	processors *host.Energy // nil: they tell nothing, and missing says why
	missing    error
	gpus       func() []edgewise.DeviceInfo
	telemetry  func(edgewise.DeviceInfo) *edgewise.Telemetry // as it is now

	mu     sync.Mutex // guards what follows
	last   map[edgewise.Device]energyReading
	joules float64 // of the GPUs
}

// energyReading is what a GPU told last.
type energyReading struct {
	at     time.Time
	joules float64 // its counter; where it has none, 0
}

// NewEnergy finds what tells of energy below root. telemetry reads that of one of the GPUs; nil when it tells nothing.
func NewEnergy(
	root string, gpus func() []edgewise.DeviceInfo, telemetry func(edgewise.DeviceInfo) *edgewise.Telemetry,
) *Energy {
	e := &Energy{gpus: gpus, telemetry: telemetry, last: map[edgewise.Device]energyReading{}}
	e.processors, e.missing = host.NewEnergy(root)
	return e
}

// Energy finds what tells of the energy of this machine.
func (d *Hardware) Energy() *Energy {
	return NewEnergy("/", func() []edgewise.DeviceInfo {
		return slices.DeleteFunc(d.List(), func(i edgewise.DeviceInfo) bool { return i.Device.Kind == edgewise.CPU })
	}, d.telemetryNow)
}

// Measures says why the energy of what runs on a kind of device is not measured.
func (e *Energy) Measures(kind edgewise.DeviceKind) error {
	if kind == edgewise.CPU {
		return e.missing
	}
	for _, d := range e.gpus() {
		if d.Used && d.Device.Kind == kind && !tells(e.telemetry(d)) {
			return fmt.Errorf("device %s tells nothing of its energy or power", d.Name)
		}
	}
	return nil
}

func tells(t *edgewise.Telemetry) bool { return t != nil && (t.Energy != nil || t.Power != nil) }

// Read returns the joules that were used since the first call. The power of a GPU that counts no energy is taken to have
// been the same since the call before.
func (e *Energy) Read() (joules float64, err error) {
	if e.processors != nil {
		if joules, err = e.processors.Read(); err != nil {
			return 0, err
		}
	}
	list := e.gpus()
	e.mu.Lock()
	defer e.mu.Unlock()
	told := e.processors != nil
	for _, d := range list {
		t := e.telemetry(d)
		if !tells(t) {
			continue
		}
		told = true
		now, before := energyReading{at: time.Now()}, e.last[d.Device]
		switch {
		case t.Energy != nil:
			now.joules = *t.Energy
			if !before.at.IsZero() && now.joules > before.joules { // less after a reload of the driver
				e.joules += now.joules - before.joules
			}
		case !before.at.IsZero():
			e.joules += *t.Power * now.at.Sub(before.at).Seconds()
		}
		e.last[d.Device] = now
	}
	if !told {
		return 0, errors.New("nothing tells of the energy of this machine")
	}
	return joules + e.joules, nil
}

package serving

import (
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// avoidTime is for how long a version whose instance groups leave the kind open stays away from a device on which its
// process was not started again.
const avoidTime = 10 * time.Minute

// avoided are the devices from which versions stay away. The zero value is empty.
type avoided struct {
	mu    sync.Mutex
	until map[avoidance]time.Time
}

type avoidance struct {
	id edgewise.ModelID
	on edgewise.Device
}

// add makes a version stay away from devices, and forgets what is over.
func (a *avoided) add(id edgewise.ModelID, devices []edgewise.Device) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for key, until := range a.until {
		if now.After(until) {
			delete(a.until, key)
		}
	}
	if a.until == nil {
		a.until = map[avoidance]time.Time{}
	}
	for _, on := range devices {
		a.until[avoidance{id, on}] = now.Add(avoidTime)
	}
}

// has tells whether a version stays away from a device.
func (a *avoided) has(id edgewise.ModelID, on edgewise.Device) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.until[avoidance{id, on}])
}

// again returns what is asked when the process of the version has ended for good: one that may run elsewhere is loaded
// again, and stays away from the devices on which it died. nil: it may not.
func (t *load) again() func() bool {
	if !leftOpen(t.version.Model) || t.place.devices[0].Kind == edgewise.CPU {
		return nil
	}
	return func() bool {
		t.avoided.add(t.version.ID, t.place.devices)
		return true
	}
}

// leftOpen tells whether an instance group leaves the kind of device open.
func leftOpen(m *edgewise.Model) bool {
	return slices.ContainsFunc(m.InstanceGroup, func(g edgewise.InstanceGroup) bool { return g.Kind == edgewise.KindAuto })
}

// usableFor is Devices.Usable, for a version that leaves the kind open without the devices from which it stays away.
func (l *Loader) usableFor(v *edgewise.Version) func() ([]edgewise.DeviceInfo, error) {
	return func() ([]edgewise.DeviceInfo, error) {
		list, err := l.config.Devices.Usable()
		if !leftOpen(v.Model) {
			return list, err
		}
		stays := func(d edgewise.DeviceInfo) bool { return l.avoided.has(v.ID, d.Device) }
		return slices.DeleteFunc(slices.Clone(list), stays), err
	}
}

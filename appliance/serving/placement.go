package serving

import (
	"context"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// placement is where a version runs.
type placement struct {
	devices   []edgewise.Device // one or more GPUs, or the CPU alone
	instances int               // batches at the same time
	cores     *cores.Budget     // that they are charged for; nil: none
	threads   int
	solo      int // threads of a run that has the machine to itself; 0: as many as any other
}

// devicesFor reads the instance groups of a model. Groups of KIND_GPU go to the GPUs that they name, or to all; those
// of KIND_AUTO too when there is a usable one, and else to the CPU. Errors: Unavailable (a GPU is asked for and
// cannot be used; with the one reason), Unsupported (it asks for both kinds of devices).
func devicesFor(
	m *edgewise.Model, f edgewise.Format, usable func() ([]edgewise.DeviceInfo, error),
) ([]edgewise.Device, error) {
	const op = "serving.devicesFor"
	cpu := []edgewise.Device{{}}
	onGPU := func(g edgewise.InstanceGroup) bool { return g.Kind != edgewise.KindCPU }
	if !slices.Contains(f.Devices, edgewise.GPU) || !slices.ContainsFunc(m.InstanceGroup, onGPU) {
		return cpu, nil
	}
	list, reason := usable()
	var devices []edgewise.Device
	onCPU := false
	for _, g := range m.InstanceGroup {
		if g.Kind == edgewise.KindCPU || g.Kind == edgewise.KindAuto && reason != nil {
			onCPU = true
			continue
		}
		if reason != nil {
			return nil, edgewise.Errorf(op, edgewise.Unavailable,
				"model %q: instance group %q asks for a GPU, and none is used: %w; use KIND_CPU, or see \"edgewise doctor\"",
				m.Name, g.Name, reason)
		}
		for _, index := range g.GPUs {
			if !slices.ContainsFunc(list, func(d edgewise.DeviceInfo) bool { return d.Device.Index == int(index) }) {
				return nil, edgewise.Errorf(op, edgewise.Unavailable,
					"model %q: instance group %q asks for gpu:%d, which is not among the %d that can be used",
					m.Name, g.Name, index, len(list))
			}
		}
		for _, d := range list {
			named := len(g.GPUs) == 0 || slices.Contains(g.GPUs, int32(d.Device.Index))
			if named && !slices.Contains(devices, d.Device) {
				devices = append(devices, d.Device)
			}
		}
	}
	switch {
	case len(devices) == 0:
		return cpu, nil
	case onCPU:
		return nil, edgewise.Errorf(op, edgewise.Unsupported,
			"model %q: its instance groups ask for the CPU and for GPUs: use one kind", m.Name)
	}
	return devices, nil
}

// placement decides where a version runs, and how many of its batches run at the same time. Runs on a GPU take no
// cores.
func (l *Loader) placement(m *edgewise.Model, f edgewise.Format) (placement, error) {
	devices, err := devicesFor(m, f, l.config.Devices.Usable)
	if err != nil {
		return placement{}, err
	}
	p := placement{devices: devices, instances: l.instances(m, f, devices)}
	if devices[0].Kind == edgewise.CPU && !f.Remote {
		c := m.Concurrency(l.config.CoreCount)
		p.cores, p.threads = l.config.Cores, c.Threads()
		if !f.Guest {
			p.solo = c.Solo
		}
	}
	return p, nil
}

// instances is how many batches of a model run at the same time on devices. A guest may have one more than there are
// cores: a run that computes for long has left its core, and the next request does not wait for it.
func (l *Loader) instances(m *edgewise.Model, f edgewise.Format, devices []edgewise.Device) int {
	switch {
	case f.Guest:
		return min(m.Instances(), l.config.CoreCount+1)
	case f.Answers: // each has a process, which may wait for others
		return m.Instances()
	}
	if devices[0].Kind == edgewise.CPU {
		return m.Concurrency(l.config.CoreCount).Instances
	}
	n := 0
	for _, d := range devices {
		n += m.InstancesOn(d) * m.PipelineSlots()
	}
	return n
}

// instance loads the version on its devices: one instance for each, behind one that spreads runs over them when there
// are several.
func (t *load) instance(ctx context.Context) (edgewise.Instance, error) {
	if t.place.devices[0].Kind == edgewise.CPU {
		return t.backend.Load(ctx, t.version, t.dir, t.place.devices[0])
	}
	var list []isolated
	for _, d := range t.place.devices {
		i, err := t.loadGPU(ctx, d)
		if err != nil {
			return nil, closeAll(err, list, t.onClose)
		}
		list = append(list, i)
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return newSpread(list), nil
}

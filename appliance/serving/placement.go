package serving

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
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

// devicesFor reads the instance groups of a model. Groups of KIND_GPU go to the devices that they name, or to all of
// their kind; those of KIND_AUTO to the GPUs of CUDA when there is a usable one, and else to the CPU. Errors: Unavailable
// (a GPU is asked for and cannot be used; with the one reason), Unsupported (it asks for both kinds of devices).
func devicesFor(
	m *edgewise.Model, f edgewise.Format, usable func() ([]edgewise.DeviceInfo, error),
) ([]edgewise.Device, error) {
	const op = "serving.devicesFor"
	cpu := []edgewise.Device{{}}
	if !slices.Contains(f.Devices, edgewise.GPU) || !slices.ContainsFunc(m.InstanceGroup, offCPU) {
		return cpu, nil
	}
	found, reason := usable()
	found = slices.DeleteFunc(slices.Clone(found), func(d edgewise.DeviceInfo) bool { return !slices.Contains(f.Devices, d.Device.Kind) })
	kind := kindFor(m, found)
	list := slices.DeleteFunc(slices.Clone(found), func(d edgewise.DeviceInfo) bool { return d.Device.Kind != kind })
	if reason == nil && len(list) == 0 {
		reason = fmt.Errorf("there is no device of the kind %v", kind)
	}
	var devices []edgewise.Device
	onCPU := false
	for _, g := range m.InstanceGroup {
		if !offCPU(g) || g.Kind == edgewise.KindAuto && (reason != nil || kind != edgewise.GPU) {
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
					"model %q: instance group %q asks for %v:%d, which is not among the %d that can be used",
					m.Name, g.Name, kind, index, len(list))
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

// offCPU tells whether a group may run on another device than the CPU. One whose model places its instances runs there.
func offCPU(g edgewise.InstanceGroup) bool {
	return g.Kind == edgewise.KindGPU || g.Kind == edgewise.KindAuto
}

// kindFor is the kind of devices that a model's groups mean by a GPU: that of the accelerators that it names; otherwise
// the GPUs of CUDA when there is a usable one, and Vulkan's when there are only those.
func kindFor(m *edgewise.Model, usable []edgewise.DeviceInfo) edgewise.DeviceKind {
	named := m.Accelerators().GPU
	switch {
	case slices.ContainsFunc(named, func(a edgewise.Accelerator) bool { return strings.EqualFold(a.Name, "webgpu") }):
		return edgewise.Vulkan
	case len(named) > 0 || len(usable) == 0:
		return edgewise.GPU
	}
	return usable[0].Device.Kind
}

// settle places the version on devices. What its author left open of its instances is what holds there.
func (t *load) settle(devices []edgewise.Device) {
	declared := t.declared
	if declared == nil { // a configuration that cannot be read was refused when it was stored
		declared, _ = modelconfig.Read(t.dir, t.version.Model.Name)
	}
	v := *t.version
	v.Model = modelconfig.Placed(v.Model, declared, devices[0].Kind, t.config.Defaults)
	t.version, t.place = &v, t.placeOn(v.Model, t.format, devices)
}

// placeOn is how a version runs on devices. Runs on a GPU take no cores.
func (l *Loader) placeOn(m *edgewise.Model, f edgewise.Format, devices []edgewise.Device) placement {
	p := placement{devices: devices, instances: l.instances(m, f, devices)}
	if devices[0].Kind == edgewise.CPU && !f.Remote {
		c := m.Concurrency(l.config.CoreCount)
		p.cores, p.threads = l.config.Cores, c.Threads()
		if !f.Guest {
			p.solo = c.Solo
		}
	}
	return p
}

// instances is how many batches of a model run at the same time on devices. A guest may have one more than there are
// cores: a run that computes for long has left its core, and the next request does not wait for it.
func (l *Loader) instances(m *edgewise.Model, f edgewise.Format, devices []edgewise.Device) int {
	switch {
	case f.Guest:
		return min(m.Instances(), l.config.CoreCount+1)
	case f.Answers && devices[0].Kind == edgewise.CPU: // each has a process, which may wait for others
		return m.Instances()
	}
	if devices[0].Kind == edgewise.CPU {
		return m.Concurrency(l.config.CoreCount).Instances
	}
	n := 0
	for _, d := range devices {
		if f.External { // a process has a batch at a time
			n += m.InstancesOn(d)
			continue
		}
		n += m.InstancesOn(d) * m.PipelineSlots()
	}
	return n
}

// instance decides where the version runs and loads it there.
func (t *load) instance(ctx context.Context) (i edgewise.Instance, err error) {
	if list := t.classes(); len(list) > 0 {
		return t.choose(ctx, list)
	}
	devices, err := devicesFor(t.version.Model, t.format, t.usableFor(t.version))
	if err != nil {
		return nil, err
	}
	t.settle(devices)
	return t.precise(ctx)
}

// on loads the version on its devices: one instance for each, behind one that spreads runs over them when there are
// several.
func (t *load) on(ctx context.Context) (edgewise.Instance, error) {
	if t.place.devices[0].Kind == edgewise.CPU {
		return t.backend.Load(ctx, t.version, t.dir, t.place.devices[0])
	}
	if t.format.External {
		return t.program(ctx)
	}
	var list []isolated
	for _, d := range t.place.devices {
		i, err := t.loadGPU(ctx, d)
		if err == nil {
			if list = append(list, i); t.check != nil {
				err = t.check(ctx, d, i)
			}
		}
		if err != nil {
			return nil, closeAll(err, list, t.onClose)
		}
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return newSpread(list), nil
}

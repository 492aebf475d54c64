package serving

import (
	"bufio"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// programAccess is what a process of another program on a GPU of CUDA may use: what ours may, and of the GPUs that one
// alone, which is its GPU 0. NVIDIA's libraries are found where the box has found them.
func (d *Hardware) programAccess(on edgewise.Device) child.Access {
	found := d.found().GPU
	at := slices.IndexFunc(found.Devices, func(info edgewise.DeviceInfo) bool { return info.Device == on })
	if at < 0 {
		return child.Access{}
	}
	info := found.Devices[at]
	a := cudaAccess(found, []string{
		"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + cmp.Or(info.UUID, strconv.Itoa(on.Index)),
		"CUDA_MODULE_LOADING=LAZY", "CUDA_CACHE_DISABLE=1",
	})
	var folders []string
	for _, l := range found.Libraries {
		if folder := filepath.Dir(l.Path); filepath.IsAbs(l.Path) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	if len(folders) > 0 {
		a.Environment = append(a.Environment, "LD_LIBRARY_PATH="+strings.Join(folders, ":"))
	}
	if own := ownNode("/", info.BusID); own != "" {
		a.Devices = slices.Replace(a.Devices, 0, 1, own, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
	}
	return a
}

// ownNode is the device file of the GPU of NVIDIA at a place of the bus, by what its driver says below root; "" when it does
// not say. The numbers of device files are not those of CUDA.
func ownNode(root, busID string) string {
	if busID == "" || strings.ContainsRune(busID, '/') {
		return ""
	}
	f, err := os.Open(filepath.Join(root, "proc/driver/nvidia/gpus", strings.ToLower(busID), "information"))
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16); name == "Device Minor" && err == nil {
			return "/dev/nvidia" + strconv.FormatUint(n, 10)
		}
	}
	return ""
}

// placer loads a version whose processes are those of another program on several devices. external.Backend is one.
type placer interface {
	LoadOn(ctx context.Context, v *edgewise.Version, dir string, on []edgewise.Device) (edgewise.Instance, error)
}

// program loads a version of another program on its GPUs, whose memory is taken for each instance. One that leaves the
// kind open, and whose program uses no GPU here, is loaded on the CPU.
func (t *load) program(ctx context.Context) (edgewise.Instance, error) {
	backend, ok := t.backend.(placer)
	if !ok {
		return nil, edgewise.Errorf("serving.Load", edgewise.Internal, "BUG: model %v: its backend knows no devices", t.version.ID)
	}
	inspection, err := t.inspection()
	if err != nil {
		return nil, err
	}
	for _, on := range t.place.devices {
		s := &share{id: t.version.ID, device: on, bytes: t.needOn(inspection, on)}
		if err := t.memory.take(s); err != nil {
			return nil, closeAll[edgewise.Instance](err, nil, t.onClose)
		}
		t.onClose = append(t.onClose, func() { t.memory.give(s) })
	}
	i, err := backend.LoadOn(ctx, t.version, t.dir, t.place.devices)
	if err == nil {
		return i, nil
	}
	err = closeAll[edgewise.Instance](err, nil, t.onClose)
	if t.onClose = nil; !leftOpen(t.version.Model) || edgewise.KindOf(err) != edgewise.Unsupported {
		return nil, err
	}
	t.config.Logger.Info("a model is loaded on the CPU: its backend uses no GPU here", "model", t.version.ID.String(), "error", err)
	t.settle([]edgewise.Device{{}})
	return t.on(ctx)
}

// needOn is what a version takes of a GPU.
func (t *load) needOn(file *edgewise.Inspection, on edgewise.Device) int64 {
	_, stated := t.version.Model.Parameters[gpuMemoryParameter]
	if t.format.GPUMemory == 0 || stated {
		return gpuNeed(t.version.Model, file, on)
	}
	return t.format.GPUMemory * int64(t.version.Model.InstancesOn(on))
}

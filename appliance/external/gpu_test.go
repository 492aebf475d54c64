package external

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/api/backend/conformance"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// noting is the conformance model, whose note says where it was put and which device files it may open.
func noting(s *backend.Server, start *backend.Start) (backend.Model, *backend.Ready, error) {
	m, ready, err := conformance.Load(s, start)
	if err != nil {
		return nil, nil, err
	}
	var open []string
	for n := range 2 {
		f, err := os.OpenFile(filepath.Join(os.Getenv("NODES"), fmt.Sprint("nvidia", n)), os.O_RDWR, 0)
		if err == nil {
			open = append(open, fmt.Sprint("nvidia", n))
			_ = f.Close()
		}
	}
	ready.Note = fmt.Sprintf("%s %s %d sees %s opens %s", start.Instance.Name, start.Instance.Kind, start.Instance.Device,
		os.Getenv("CUDA_VISIBLE_DEVICES"), strings.Join(open, "+"))
	return m, ready, nil
}

func TestAProcessOnAGPUUsesItsDeviceAlone(t *testing.T) {
	nodes := t.TempDir()
	for n := range 2 {
		if err := os.WriteFile(filepath.Join(nodes, fmt.Sprint("nvidia", n)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := manifest(t, "placed")
	m.GPU, m.Spare = true, true
	c, log := config(t, m)
	c.Device = func(on edgewise.Device) child.Access {
		return child.Access{
			Environment: []string{"NODES=" + nodes, fmt.Sprint("CUDA_VISIBLE_DEVICES=GPU-", on.Index)},
			Devices:     []string{filepath.Join(nodes, fmt.Sprint("nvidia", on.Index))},
		}
	}
	v := version(false, 2)
	v.Model.InstanceGroup = []edgewise.InstanceGroup{
		{Name: "x_0", Kind: edgewise.KindGPU, Count: 2, GPUs: []int32{0}}, {Name: "x_1", Kind: edgewise.KindGPU, Count: 1},
	}
	gpu := func(n int) edgewise.Device { return edgewise.Device{Kind: edgewise.GPU, Index: n} }
	loaded, err := New(c).LoadOn(t.Context(), v, t.TempDir(), []edgewise.Device{gpu(0), gpu(1)})
	if err != nil {
		t.Fatal(err)
	}
	i := loaded.(*Instance)
	defer func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}()
	var notes []string
	for _, w := range i.workers {
		notes = append(notes, w.current().note)
	}
	want := []string{
		"x_0_0 KIND_GPU 0 sees GPU-0 opens nvidia0", "x_0_1 KIND_GPU 0 sees GPU-0 opens nvidia0",
		"x_1_0 KIND_GPU 0 sees GPU-0 opens nvidia0", "x_1_1 KIND_GPU 0 sees GPU-1 opens nvidia1",
	}
	if strings.Contains(log.String(), "does not keep the processes of backends away") { // a kernel without Landlock
		for n := range want {
			want[n] = want[n][:strings.LastIndex(want[n], " ")] + " nvidia0+nvidia1"
		}
	}
	if !slices.Equal(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
	if i.takeSpare() != nil {
		t.Error("a spare process waits, whose sandbox has no device")
	}
	if got := send(t, i, ask(t, nil)); got.err != nil {
		t.Error(got.err)
	}
}

func TestKindsThatAProcessOnTheCPUIsTold(t *testing.T) {
	m := manifest(t, "placed")
	c, _ := config(t, m)
	for kind, want := range map[edgewise.InstanceKind]string{
		edgewise.KindCPU: "KIND_CPU", edgewise.KindAuto: "KIND_CPU", "": "KIND_CPU", "KIND_MODEL": "KIND_MODEL",
	} {
		v := version(false, 1)
		v.Model.InstanceGroup[0].Kind = kind
		if note := load(t, c, v).workers[0].current().note; note != "x_0_0 "+want+" 0 sees  opens " {
			t.Errorf("%q: %q", kind, note)
		}
	}
}

func TestABackendThatUsesGPUsSaysSo(t *testing.T) {
	m := manifest(t, "reference")
	if f := m.Formats()[0]; slices.Contains(f.Devices, edgewise.GPU) {
		t.Errorf("it uses no GPU: %v", f.Devices)
	}
	m.GPU = true
	if f := m.Formats()[0]; !slices.Contains(f.Devices, edgewise.GPU) || f.GPUMemory != 1<<30 {
		t.Errorf("%+v", f)
	}
	m.GPUMemory = 5
	if err := m.check(); err == nil || !strings.Contains(err.Error(), "gpu_memory: want 1048576 bytes at least, got 5") {
		t.Error(err)
	}
	m.GPU, m.GPUMemory = false, 2<<30
	if err := m.check(); err == nil || !strings.Contains(err.Error(), "gpu_memory: the backend uses no GPU") {
		t.Error(err)
	}
}

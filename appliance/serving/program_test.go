package serving

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu"
	"github.com/edgewise-ai/edgewise/gpu/provider"
)

// programs is a backend of another program, which may refuse GPUs.
type programs struct {
	*bench
	refuses error // GPUs
	devices []edgewise.Device
	booked  string // while it was loaded
	loader  *Loader
}

func (p *programs) Formats() []edgewise.Format {
	return []edgewise.Format{{
		Platform: "pytorch_libtorch", Devices: []edgewise.DeviceKind{edgewise.CPU, edgewise.GPU}, Answers: true, External: true,
		Untried: true, GPUMemory: 1 << 30,
	}}
}

func (p *programs) Load(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance, error) {
	return p.LoadOn(ctx, v, dir, []edgewise.Device{on})
}

func (p *programs) LoadOn(
	_ context.Context, _ *edgewise.Version, _ string, on []edgewise.Device,
) (edgewise.Instance, error) {
	p.devices, p.booked = on, ""
	for _, s := range p.loader.memory.taken {
		p.booked += fmt.Sprintf("%v %d MiB ", s.device, s.bytes>>20)
	}
	if on[0].Kind != edgewise.CPU && p.refuses != nil {
		return nil, p.refuses
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
	return streaming{&working{simulated: simulated{}, bench: p.bench}}, nil
}

type streaming struct{ *working }

func (streaming) Answer(context.Context, []*edgewise.Call) error { return nil }

func TestAModelOfAnotherProgramIsPlacedOnGPUs(t *testing.T) {
	noGPU := edgewise.Errorf("x", edgewise.Unsupported, "PyTorch has no CUDA")
	broken := edgewise.Errorf("x", edgewise.Internal, "it died")
	for _, test := range []struct {
		name    string
		group   edgewise.InstanceGroup
		memory  string // gpu_memory_bytes
		gpus    int
		refuses error
		devices string
		booked  string
		err     string // in part; "": none
	}{
		{"the CPU", edgewise.InstanceGroup{Kind: edgewise.KindCPU}, "", 1, nil, "[cpu]", "", ""},
		{"the GPU", edgewise.InstanceGroup{Kind: edgewise.KindGPU}, "", 1, nil, "[gpu:0]", "gpu:0 2048 MiB ", ""},
		{"two GPUs", edgewise.InstanceGroup{Kind: edgewise.KindGPU}, "", 2, nil, "[gpu:0 gpu:1]", "gpu:0 2048 MiB gpu:1 2048 MiB ", ""},
		{"one of two", edgewise.InstanceGroup{Kind: edgewise.KindGPU, GPUs: []int32{1}}, "", 2, nil, "[gpu:1]", "gpu:1 2048 MiB ", ""},
		{"its own number", edgewise.InstanceGroup{Kind: edgewise.KindGPU}, "1048576", 1, nil, "[gpu:0]", "gpu:0 1 MiB ", ""},
		{"too much", edgewise.InstanceGroup{Kind: edgewise.KindGPU}, "99999999999", 1, nil, "[]", "", "it takes 99999999999 bytes of gpu:0"},
		{"open", edgewise.InstanceGroup{Kind: edgewise.KindAuto}, "", 1, nil, "[gpu:0]", "gpu:0 2048 MiB ", ""},
		{"open, without a GPU", edgewise.InstanceGroup{Kind: edgewise.KindAuto}, "", 0, nil, "[cpu]", "", ""},
		{"open, and its program uses none", edgewise.InstanceGroup{Kind: edgewise.KindAuto}, "", 1, noGPU, "[cpu]", "", ""},
		{"open, and it is broken", edgewise.InstanceGroup{Kind: edgewise.KindAuto}, "", 1, broken, "[gpu:0]", "gpu:0 2048 MiB ", "it died"},
		{"without a GPU", edgewise.InstanceGroup{Kind: edgewise.KindGPU}, "", 0, nil, "[]", "", "asks for a GPU, and none is used"},
		{
			"its program uses none",
			edgewise.InstanceGroup{Kind: edgewise.KindGPU},
			"", 1, noGPU, "[gpu:0]", "gpu:0 2048 MiB ", "PyTorch has no CUDA",
		},
		{"it places itself", edgewise.InstanceGroup{Kind: "KIND_MODEL"}, "", 1, nil, "[cpu]", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newBench(simulated{}, make([]simulated, test.gpus)...)
			p := &programs{bench: w, refuses: test.refuses}
			l := w.loader()
			l.config.Backends, p.loader = []edgewise.Backend{p}, l
			v := openVersion(test.group.Kind)
			v.Model.Platform, v.Model.InstanceGroup[0] = "pytorch_libtorch", test.group
			v.Model.InstanceGroup[0].Name, v.Model.InstanceGroup[0].Count = "m_0", 2
			if test.memory != "" {
				v.Model.Parameters = map[string]edgewise.ModelParam{"gpu_memory_bytes": {StringValue: test.memory}}
			}
			loaded, err := l.Load(t.Context(), v, t.TempDir(), v.Model)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatal(err)
			}
			if fmt.Sprint(p.devices) != test.devices || p.booked != test.booked {
				t.Errorf("on %v with %s", p.devices, p.booked)
			}
			if err == nil {
				if err := loaded.Close(); err != nil {
					t.Error(err)
				}
			}
			if w.open != 0 || len(l.memory.taken) != 0 {
				t.Errorf("%d instances and %d shares of memory are left", w.open, len(l.memory.taken))
			}
		})
	}
}

func TestAProgramSeesItsGPUAlone(t *testing.T) {
	card := edgewise.DeviceInfo{Device: edgewise.Device{Kind: edgewise.GPU, Index: 1}, UUID: "GPU-2", BusID: "0000:0A:00.0", Used: true}
	d := devicesOf(t, Report{GPU: &gpu.Report{
		Devices: []edgewise.DeviceInfo{card}, DriverPath: "/usr/lib/libcuda.so.1",
		Libraries: []provider.Library{
			{Name: "libcudart.so.13", Path: "/opt/cuda/libcudart.so.13"}, {Name: "libcublas.so.13", Path: "libcublas.so.13"},
		},
	}})
	a := d.programAccess(card.Device)
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=GPU-2", "CUDA_CACHE_DISABLE=1", "LD_LIBRARY_PATH=/opt/cuda"} {
		if !slices.Contains(a.Environment, want) {
			t.Errorf("%v lacks %s", a.Environment, want)
		}
	}
	if !slices.Contains(a.ReadPaths, "/opt/cuda") || !slices.Contains(a.Devices, "/dev/nvidia*") {
		t.Errorf("%+v", a)
	}
	if none := d.programAccess(edgewise.Device{Kind: edgewise.GPU}); len(none.Devices)+len(none.Environment) > 0 {
		t.Errorf("a GPU that there is none of: %+v", none)
	}
}

func TestTheDeviceFileOfAGPUIsThatOfItsPlaceOnTheBus(t *testing.T) {
	root := t.TempDir()
	tell := func(bus, text string) {
		folder := filepath.Join(root, "proc/driver/nvidia/gpus", bus)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "information"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tell("0000:0a:00.0", "Model: \t\t NVIDIA L4\nBus Location: \t 0000:0a:00.0\nDevice Minor: \t 3\n")
	tell("0000:0b:00.0", "Model: \t\t NVIDIA L4\nDevice Minor: \t many\n")
	for bus, want := range map[string]string{
		"0000:0A:00.0": "/dev/nvidia3", "0000:0b:00.0": "", "0000:0c:00.0": "", "": "", "../gpus/0000:0a:00.0": "",
	} {
		if got := ownNode(root, bus); got != want {
			t.Errorf("%q: %q, want %q", bus, got, want)
		}
	}
}

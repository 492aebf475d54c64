package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

func TestDevicesOfAModel(t *testing.T) {
	two := func() ([]edgewise.DeviceInfo, error) {
		return []edgewise.DeviceInfo{
			{Device: edgewise.Device{Kind: edgewise.GPU}},
			{Device: edgewise.Device{Kind: edgewise.GPU, Index: 1}},
		}, nil
	}
	none := func() ([]edgewise.DeviceInfo, error) { return nil, errors.New("the driver is too old") }
	format := edgewise.Format{Devices: []edgewise.DeviceKind{edgewise.CPU, edgewise.GPU}}
	group := func(kind edgewise.InstanceKind, gpus ...int32) edgewise.InstanceGroup {
		return edgewise.InstanceGroup{Name: "m_0", Kind: kind, Count: 1, GPUs: gpus}
	}
	for _, test := range []struct {
		name   string
		groups []edgewise.InstanceGroup
		usable func() ([]edgewise.DeviceInfo, error)
		want   string
	}{
		{"CPU", []edgewise.InstanceGroup{group(edgewise.KindCPU)}, two, "[cpu]"},
		{"all GPUs", []edgewise.InstanceGroup{group(edgewise.KindGPU)}, two, "[gpu:0 gpu:1]"},
		{"one GPU", []edgewise.InstanceGroup{group(edgewise.KindGPU, 1)}, two, "[gpu:1]"},
		{
			"two groups",
			[]edgewise.InstanceGroup{group(edgewise.KindGPU, 1), group(edgewise.KindGPU, 0, 1)},
			two,
			"[gpu:1 gpu:0]",
		},
		{"left open", []edgewise.InstanceGroup{group(edgewise.KindAuto)}, two, "[gpu:0 gpu:1]"},
		{"left open without a GPU", []edgewise.InstanceGroup{group(edgewise.KindAuto)}, none, "[cpu]"},
		{
			"no GPU",
			[]edgewise.InstanceGroup{group(edgewise.KindGPU)},
			none,
			`instance group "m_0" asks for a GPU, and none is used: the driver is too old; use KIND_CPU`,
		},
		{
			"a GPU that is not there",
			[]edgewise.InstanceGroup{group(edgewise.KindGPU, 2)},
			two,
			"asks for gpu:2, which is not among the 2",
		},
		{"both kinds", []edgewise.InstanceGroup{group(edgewise.KindGPU), group(edgewise.KindCPU)}, two, "use one kind"},
	} {
		devices, err := devicesFor(&edgewise.Model{Name: "m", InstanceGroup: test.groups}, format, test.usable)
		if got := fmt.Sprint(devices); err == nil && got != test.want || err != nil &&
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, %v", test.name, devices, err)
		}
	}
}

// counted counts its runs, and fails while it is to.
type counted struct {
	mu      sync.Mutex
	runs    int
	failing error
	inside  chan struct{}
	closed  bool
	ended   chan struct{}
	memory  [][]byte // of Alloc and AllocBody, in use
	kept    int      // what KeptBytes returns
	pads    bool
}

func (c *counted) Run(context.Context, []edgewise.Tensor, []string, edgewise.RunOptions) (*edgewise.Result, error) {
	c.mu.Lock()
	c.runs++
	err := c.failing
	c.mu.Unlock()
	if c.inside != nil {
		<-c.inside
	}
	if err != nil {
		return nil, err
	}
	return &edgewise.Result{Free: func() {}}, nil
}

func (c *counted) Close() error {
	c.closed = true
	return nil
}

func (c *counted) AllowPadding() { c.pads = true }

func (c *counted) Alloc(n int) ([]byte, func(), error) {
	data, free := c.AllocBody(n)
	return data, free, nil
}

func (c *counted) KeptBytes() int { return c.kept }

func (c *counted) AllocBody(n int) ([]byte, func()) {
	data := make([]byte, n)
	c.memory = append(c.memory, data)
	return data, func() {
		c.memory = slices.DeleteFunc(c.memory, func(m []byte) bool { return &m[0] == &data[0] })
	}
}

func (c *counted) OwnsBody(data []byte) bool {
	return slices.ContainsFunc(c.memory, func(m []byte) bool { return &m[0] == &data[0] })
}

func (c *counted) Process() (edgewise.Process, bool) {
	return edgewise.Process{PID: 7, Resident: 10, Crashes: 1}, true
}

func (c *counted) Ended() <-chan struct{} { return c.ended }

func (c *counted) OnDemand(edgewise.Claims) {}

func (c *counted) Rest() bool { return false }

func (c *counted) Resting() bool { return false }

func (c *counted) Wake(context.Context) (func(), error) { return func() {}, nil }

func (c *counted) Used() (time.Time, int64, bool) { return time.Time{}, 0, false }

func (c *counted) Takes() (now, most int64) { return 0, 0 }

func TestRunsGoToTheLeastBusyDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &counted{inside: make(chan struct{})}, &counted{inside: make(chan struct{})}
		s := newSpread([]isolated{a, b})
		for range 6 {
			go func() {
				if _, err := s.Run(context.Background(), nil, nil, edgewise.RunOptions{}); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait() // all are inside
		close(a.inside)
		close(b.inside)
		synctest.Wait()
		if a.runs != 3 || b.runs != 3 {
			t.Errorf("%d and %d runs", a.runs, b.runs)
		}
		if p, ok := s.Process(); !ok || p.Resident != 20 || p.Crashes != 2 || p.PID != 7 {
			t.Errorf("%+v, %v", p, ok)
		}
		if err := s.Close(); err != nil || !a.closed || !b.closed {
			t.Errorf("closing: %v", err)
		}
	})
}

// TestRunsGoToTheDeviceInWhoseMemoryTheirInputsStand has memory of two devices, and lets runs read one or the other.
func TestRunsGoToTheDeviceInWhoseMemoryTheirInputsStand(t *testing.T) {
	a, b := &counted{kept: 10}, &counted{kept: 20, inside: make(chan struct{})}
	s := newSpread([]isolated{a, b})
	if s.AllowPadding(); !a.pads || !b.pads || s.KeptBytes() != 10 {
		t.Errorf("padding %v %v, %d bytes kept", a.pads, b.pads, s.KeptBytes())
	}
	run := func(data []byte) {
		t.Helper()
		if _, err := s.Run(t.Context(), []edgewise.Tensor{{Data: data}}, nil, edgewise.RunOptions{}); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b.inside = make(chan struct{})
		batch, freeBatch, err := s.Alloc(8)
		if err != nil || !a.OwnsBody(batch) {
			t.Fatalf("memory of the first device: %v", err)
		}
		theirs, freeTheirs := b.AllocBody(8)
		if !s.OwnsBody(theirs) || s.OwnsBody(make([]byte, 8)) {
			t.Error("memory of a device is not known")
		}
		go run(theirs)
		synctest.Wait() // the second device is busy
		run(batch)
		run(theirs) // a copy costs less than to wait
		if body, free := s.AllocBody(8); !a.OwnsBody(body) {
			t.Error("a body goes to the device that is busy")
		} else {
			free()
		}
		close(b.inside)
		synctest.Wait()
		if a.runs != 2 || b.runs != 1 {
			t.Errorf("%d and %d runs", a.runs, b.runs)
		}
		freeBatch()
		freeTheirs()
		if len(a.memory)+len(b.memory)+len(s.alloc) != 0 {
			t.Errorf("left: %d and %d blocks, %d owners", len(a.memory), len(b.memory), len(s.alloc))
		}
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnotherDeviceTakesOver(t *testing.T) {
	a, b := &counted{failing: edgewise.Errorf("x", edgewise.Unavailable,
		"it is being started again")}, &counted{ended: make(chan struct{})}
	s := newSpread([]isolated{a, b})
	for range 3 {
		if _, err := s.Run(context.Background(), nil, nil, edgewise.RunOptions{}); err != nil {
			t.Error(err)
		}
	}
	if b.runs != 3 {
		t.Errorf("the working one ran %d times", b.runs)
	}
	b.failing = edgewise.Errorf("x", edgewise.Invalid, "a wrong request")
	before := a.runs + b.runs
	if _, err := s.Run(context.Background(), nil, nil, edgewise.RunOptions{}); err == nil || a.runs+b.runs > before+2 {
		t.Errorf("a request that is wrong was repeated: %v", err)
	}
	close(b.ended)
	<-s.Ended()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestOnlyCountsChangeWhileAModelIsServed(t *testing.T) {
	with := func(groups ...edgewise.InstanceGroup) *edgewise.Model { return &edgewise.Model{InstanceGroup: groups} }
	cpu, gpu := edgewise.InstanceGroup{Kind: edgewise.KindCPU, Count: 1}, edgewise.InstanceGroup{
		Kind: edgewise.KindGPU,
		GPUs: []int32{0},
	}
	more := cpu
	more.Count = 5
	if !sameDevices(with(cpu), with(more)) || sameDevices(with(cpu), with(gpu)) ||
		sameDevices(with(gpu), with(edgewise.InstanceGroup{Kind: edgewise.KindGPU, GPUs: []int32{1}})) {
		t.Error("devices and counts are not told apart")
	}
}

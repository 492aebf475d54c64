package serving

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/host"
)

// gpuMemoryParameter is the model parameter that says what a version takes of each GPU, instead of the box's estimate.
const gpuMemoryParameter = "gpu_memory_bytes"

const (
	// contextBytes is what the process of a version takes of a GPU before it has loaded anything.
	contextBytes = 400 << 20
	// weightFactor is what a version takes of a GPU, as a percentage of its weights: the weights themselves, and what
	// is computed between them.
	weightFactor = 150
)

// gpuNeed estimates what a version takes of a GPU.
func gpuNeed(m *edgewise.Model, file *edgewise.Inspection, on edgewise.Device) int64 {
	if stated, err := strconv.ParseInt(m.Parameters[gpuMemoryParameter].StringValue, 10, 64); err == nil {
		return stated
	}
	return contextBytes + file.ParameterBytes/100*weightFactor*int64(m.InstancesOn(on))
}

// gpuMemory is the book of what versions take of the memory of GPUs.
type gpuMemory struct {
	budget func(edgewise.Device) int64
	left   func(edgewise.Device) (bytes int64, shared bool) // what a device that shares the machine's memory can still have of it
	logger *slog.Logger

	mu    sync.Mutex // guards what follows; it is not held while something rests
	taken []*share
}

// share is what one version has of one GPU.
type share struct {
	id     edgewise.ModelID
	device edgewise.Device
	bytes  int64

	resident edgewise.Resident // gives the memory up and its share back; nil: it does not
	demand   manager.Demand
}

func newGPUMemory(devices Devices, logger *slog.Logger) *gpuMemory {
	find := func(on edgewise.Device) edgewise.DeviceInfo {
		list, _ := devices.Usable()
		for _, d := range list {
			if d.Device == on {
				return d
			}
		}
		return edgewise.DeviceInfo{}
	}
	return &gpuMemory{
		logger: logger, budget: func(on edgewise.Device) int64 { return find(on).Budget },
		left: func(on edgewise.Device) (int64, bool) {
			return host.AvailableMemory("/") - keptFree, host.TotalMemory("/") > 0 && find(on).Integrated
		},
	}
}

// keptFree is what a load on a device that shares the machine's memory leaves to everybody else: beyond it the kernel
// ends processes.
const keptFree = 512 << 20

// take enters s into the book. Where there is too little room, those rest that may, in the
// order of manager.Use. Error: Exhausted, which names who has the memory.
func (g *gpuMemory) take(s *share) error {
	budget := g.budget(s.device)
	if s.bytes > budget {
		return edgewise.Errorf("serving.take", edgewise.Exhausted,
			"model %v: it takes %d bytes of %v, which has %d for all models; its parameter %q says what it really takes",
			s.id, s.bytes, s.device, budget, gpuMemoryParameter)
	}
	tried := map[*share]bool{}
	for {
		victim, fits := g.enter(s, budget, tried)
		switch {
		case fits:
			return nil
		case victim == nil && !g.fitsNow(s):
			left, _ := g.left(s.device)
			return edgewise.Errorf("serving.take", edgewise.Exhausted,
				"model %v: it takes %d bytes of %v, which shares the machine's memory, and %d are left of that",
				s.id, s.bytes, s.device, max(left, 0))
		case victim == nil:
			return edgewise.Errorf("serving.take", edgewise.Exhausted,
				"model %v: it takes %d bytes of %v, whose %d are taken by %s", s.id, s.bytes, s.device, budget, g.holders(s.device))
		}
		tried[victim] = true
		if victim.resident.Rest() {
			delete(tried, victim) // it may be back meanwhile
			g.logger.Info("a model gave its memory up for another",
				"model", victim.id.String(), "device", s.device.String(), "bytes", victim.bytes, "for", s.id.String())
		}
	}
}

// enter enters s when there is room, and otherwise says who is to rest.
func (g *gpuMemory) enter(s *share, budget int64, tried map[*share]bool) (victim *share, fits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := budget - s.bytes
	var uses []manager.Use
	var first manager.Use
	var may []*share
	for _, other := range g.taken {
		if other.device != s.device {
			continue
		}
		left -= other.bytes
		if other.resident != nil {
			uses = append(uses, manager.UseOf(other.resident, &other.demand, other.id.String(), other.bytes))
			may = append(may, other)
		}
	}
	manager.Age(uses)
	for i, other := range may {
		if !tried[other] && (victim == nil || uses[i].Before(first) < 0) {
			victim, first = other, uses[i]
		}
	}
	if left < 0 || !g.fitsNow(s) {
		return victim, false
	}
	g.taken = append(g.taken, s)
	return nil, true
}

// fitsNow tells whether the machine has the memory at this moment, where the device has none of its own.
func (g *gpuMemory) fitsNow(s *share) bool {
	left, shared := g.left(s.device)
	return !shared || s.bytes <= left
}

// allow lets others have s when they need it.
func (g *gpuMemory) allow(s *share, r edgewise.Resident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.resident = r
}

// begin has what was run so far not count as requests.
func (g *gpuMemory) begin(s *share, r edgewise.Resident) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.demand.Begin(r)
}

// give takes s out of the book; nothing happens when it is not there.
func (g *gpuMemory) give(s *share) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.taken = slices.DeleteFunc(g.taken, func(other *share) bool { return other == s })
}

func (g *gpuMemory) holders(on edgewise.Device) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []string
	for _, s := range g.taken {
		if s.device == on {
			list = append(list, fmt.Sprintf("%v (%d)", s.id, s.bytes))
		}
	}
	return strings.Join(list, ", ")
}

// on lists the versions that have memory of a device.
func (g *gpuMemory) on(device edgewise.Device) []edgewise.ModelID {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []edgewise.ModelID{}
	for _, s := range g.taken {
		if s.device == device {
			list = append(list, s.id)
		}
	}
	return list
}

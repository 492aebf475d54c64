package edgewise

import (
	"slices"
	"strconv"
)

// profileParameter is the model parameter that chooses how a model uses the cores. A third value, "adaptive", is the
// default: throughput, but solo runs may have more cores.
const (
	profileParameter  = "execution_profile"
	profileThroughput = "throughput" // as many concurrent runs as the cores allow
	profileLatency    = "latency"    // one run at a time, on all cores, whose threads spin between runs
)

// Concurrency is how a model runs on the cores of a machine.
type Concurrency struct {
	Instances int  // runs at the same time, at least 1
	Intra     int  // threads inside an operator, at least 1
	Inter     int  // operators at the same time, at least 1; above 1 only with Parallel
	Parallel  bool // independent operators of one run may run at the same time
	Spin      bool // waiting threads keep their cores
	Solo      int  // threads of a run that has the machine to itself, more than Threads; 0: as many as any other
}

// maxSoloThreads bounds Solo: the networks of edge appliances gain little from more.
const maxSoloThreads = 4

// Threads is how many threads one run keeps busy at most. Each operator that runs beside another one brings the thread
// that runs it; those inside operators are shared.
func (c Concurrency) Threads() int { return c.Intra + c.Inter - 1 }

// Concurrency reads how m runs on a number of cores, at least 1. Whatever m says, Instances times Threads is at most that.
// It reads intra_op_thread_count and inter_op_thread_count (0: one for each core; 1 when they are left out),
// execution_mode, the profile and the counts of the instance groups. Numbers that cannot be read count as left out.
func (m *Model) Concurrency(cores int) Concurrency {
	cores = max(cores, 1)
	profile := m.Parameters[profileParameter].StringValue
	latency := profile == profileLatency
	intra := 1
	if latency {
		intra = cores
	}
	c := Concurrency{Intra: m.threads("intra_op_thread_count", intra, cores), Inter: 1, Spin: latency}
	if m.Parameters["execution_mode"].StringValue == "1" {
		c.Parallel, c.Inter = true, min(m.threads("inter_op_thread_count", 1, cores), cores-c.Intra+1)
	}
	c.Instances = min(m.Instances(), cores/c.Threads())
	if latency {
		c.Instances = 1
	}
	_, fixed := m.Parameters["intra_op_thread_count"]
	if solo := min(cores, maxSoloThreads); solo > c.Intra && !fixed && !c.Parallel && profile != profileThroughput {
		c.Solo = solo
	}
	return c
}

// threads reads a number of threads, from 1 to cores.
func (m *Model) threads(parameter string, otherwise, cores int) int {
	n, err := strconv.Atoi(m.Parameters[parameter].StringValue)
	switch {
	case err != nil || n < 0:
		n = otherwise
	case n == 0:
		n = cores
	}
	return min(n, cores)
}

// Instances is the sum of the counts of the groups that take requests, at least 1.
func (m *Model) Instances() int {
	n := 0
	for _, g := range m.InstanceGroup {
		if !g.Passive {
			n += int(g.Count)
		}
	}
	return max(n, 1)
}

// InstancesOn is how many instances of m its groups put on a GPU: the counts of those that name no GPUs, or this one,
// at least 1.
func (m *Model) InstancesOn(gpu Device) int {
	n := 0
	for _, g := range m.InstanceGroup {
		here := len(g.GPUs) == 0 || slices.Contains(g.GPUs, int32(gpu.Index))
		if (g.Kind == KindGPU || g.Kind == KindAuto) && here {
			n += int(g.Count)
		}
	}
	return max(n, 1)
}

// Bounds of the model parameter gpu_pipeline_slots.
const (
	maxPipelineSlots     = 8
	defaultPipelineSlots = 2
)

// PipelineSlots is how many batches of an instance on a GPU are in progress at a time: while one is computed the next is
// copied in. A number that cannot be read counts as left out.
func (m *Model) PipelineSlots() int {
	n, err := strconv.Atoi(m.Parameters["gpu_pipeline_slots"].StringValue)
	if err != nil || n < 1 || n > maxPipelineSlots {
		return defaultPipelineSlots
	}
	return n
}

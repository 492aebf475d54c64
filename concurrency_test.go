package edgewise

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestConcurrency(t *testing.T) {
	type parameters = map[string]string
	tests := []struct {
		name       string
		parameters parameters
		counts     []int32
		cores      int
		want       Concurrency
	}{
		{"one run a core", nil, []int32{4}, 4, Concurrency{Instances: 4, Intra: 1, Inter: 1, Solo: 4}},
		{"fewer instances than cores", nil, []int32{1, 2}, 8, Concurrency{Instances: 3, Intra: 1, Inter: 1, Solo: maxSoloThreads}},
		{"more instances than cores", nil, []int32{16}, 2, Concurrency{Instances: 2, Intra: 1, Inter: 1, Solo: 2}},
		{"no group", nil, nil, 2, Concurrency{Instances: 1, Intra: 1, Inter: 1, Solo: 2}},
		{
			"threads inside a run",
			parameters{"intra_op_thread_count": "2"},
			[]int32{4},
			4,
			Concurrency{Instances: 2, Intra: 2, Inter: 1},
		},
		{
			"threads that do not divide the cores",
			parameters{"intra_op_thread_count": "3"},
			[]int32{4},
			4,
			Concurrency{Instances: 1, Intra: 3, Inter: 1},
		},
		{
			"a thread for each core",
			parameters{"intra_op_thread_count": "0"},
			[]int32{4},
			4,
			Concurrency{Instances: 1, Intra: 4, Inter: 1},
		},
		{
			"more threads than cores",
			parameters{"intra_op_thread_count": "64"},
			[]int32{4},
			4,
			Concurrency{Instances: 1, Intra: 4, Inter: 1},
		},
		{
			"operators one after the other need no threads of their own",
			parameters{"inter_op_thread_count": "4"},
			[]int32{4},
			4,
			Concurrency{Instances: 4, Intra: 1, Inter: 1, Solo: 4},
		},
		{
			"operators beside each other",
			parameters{"execution_mode": "1", "inter_op_thread_count": "2"},
			[]int32{4},
			4,
			Concurrency{Instances: 2, Intra: 1, Inter: 2, Parallel: true},
		},
		{"both kinds of threads", parameters{
			"execution_mode": "1", "inter_op_thread_count": "4",
			"intra_op_thread_count": "3",
		}, []int32{4}, 4, Concurrency{Instances: 1, Intra: 3, Inter: 2, Parallel: true}},
		{
			"latency",
			parameters{profileParameter: profileLatency},
			[]int32{1},
			4,
			Concurrency{Instances: 1, Intra: 4, Inter: 1, Spin: true},
		},
		{
			"latency with fewer threads is still one at a time",
			parameters{profileParameter: profileLatency, "intra_op_thread_count": "2"},
			[]int32{4},
			4,
			Concurrency{Instances: 1, Intra: 2, Inter: 1, Spin: true},
		},
		{
			"adaptive by name",
			parameters{profileParameter: "adaptive"},
			[]int32{2},
			2,
			Concurrency{Instances: 2, Intra: 1, Inter: 1, Solo: 2},
		},
		{
			"one thread because it was asked for",
			parameters{"intra_op_thread_count": "1"},
			[]int32{2},
			2,
			Concurrency{Instances: 2, Intra: 1, Inter: 1},
		},
		{"one core", nil, []int32{2}, 1, Concurrency{Instances: 1, Intra: 1, Inter: 1}},
		{
			"throughput by name",
			parameters{profileParameter: profileThroughput},
			[]int32{2},
			2,
			Concurrency{Instances: 2, Intra: 1, Inter: 1},
		},
		{
			"what is no number is left out",
			parameters{"intra_op_thread_count": "many"},
			[]int32{2},
			2,
			Concurrency{Instances: 2, Intra: 1, Inter: 1},
		},
		{"a machine without cores has one", nil, []int32{2}, 0, Concurrency{Instances: 1, Intra: 1, Inter: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := modelWith(test.parameters, test.counts)
			if got := m.Concurrency(test.cores); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func modelWith(parameters map[string]string, counts []int32) *Model {
	m := &Model{Parameters: map[string]ModelParam{}}
	for key, value := range parameters {
		m.Parameters[key] = ModelParam{StringValue: value}
	}
	for i, n := range counts {
		m.InstanceGroup = append(m.InstanceGroup, InstanceGroup{Name: fmt.Sprint(i), Count: n})
	}
	return m
}

func TestLanesTimesThreadsStayWithinTheCores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) string { return strconv.Itoa(rapid.IntRange(-1, 70).Draw(t, name)) }
		m := modelWith(map[string]string{
			"intra_op_thread_count": number("intra"), "inter_op_thread_count": number("inter"),
			"execution_mode": rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "mode"),
			profileParameter: rapid.SampledFrom([]string{"", "adaptive", profileLatency, profileThroughput}).Draw(t,
				"profile"),
		}, rapid.SliceOfN(rapid.Int32Range(0, 64), 0, 3).Draw(t, "counts"))
		cores := rapid.IntRange(1, 64).Draw(t, "cores")
		c := m.Concurrency(cores)
		if c.Instances < 1 || c.Intra < 1 || c.Inter < 1 || c.Instances*c.Threads() > cores || c.Solo > min(cores, maxSoloThreads) ||
			c.Solo > 0 && c.Solo <= c.Threads() {
			t.Errorf("%+v on %d cores", c, cores)
		}
	})
}

func TestInstancesOfAGPU(t *testing.T) {
	m := &Model{InstanceGroup: []InstanceGroup{
		{Kind: KindGPU, Count: 2},
		{Kind: KindAuto, Count: 1, GPUs: []int32{1}},
		{Kind: KindCPU, Count: 9},
	}}
	for index, want := range []int{2, 3} {
		if got := m.InstancesOn(Device{Kind: GPU, Index: index}); got != want {
			t.Errorf("gpu:%d: %d instances, want %d", index, got, want)
		}
	}
	for text, want := range map[string]int{"": 2, "1": 1, "8": 8, "9": 2, "x": 2} {
		m := modelWith(map[string]string{"gpu_pipeline_slots": text}, nil)
		if got := m.PipelineSlots(); got != want {
			t.Errorf("%q: %d slots, want %d", text, got, want)
		}
	}
}

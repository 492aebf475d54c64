package roofline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/roofline"
)

// machine does 100 GFLOP/s and 10 GB/s on one core, 200 and 15 on two; an operator takes 1 us.
func machine() *admin.Roofline {
	return &admin.Roofline{Cores: 2, Compute: [2]float64{100e9, 200e9}, Read: [2]float64{10e9, 15e9}, Cache: 1 << 20, Operator: 1}
}

// measured is a version whose requests have taken these times, in milliseconds, each in a run of its own.
func measured(requests uint64, queue, input, infer, output float64) edgewise.Statistics {
	var s edgewise.Statistics
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	for range requests {
		t := edgewise.Timing{Queue: ms(queue), Input: ms(input), Infer: ms(infer), Output: ms(output), Batch: 1}
		s.Executed(time.Now(), t)
		s.Succeeded(ms(queue+input+infer+output), t)
	}
	return s
}

// lasting is measured with requests that have taken so long in all.
func lasting(s edgewise.Statistics, total time.Duration) edgewise.Statistics {
	s.Success.Total = time.Duration(s.Success.Count) * total
	return s
}

func TestWhatBoundsAVersionFollowsFromItsFigures(t *testing.T) {
	for _, c := range []struct {
		name string
		s    roofline.Snapshot
		want string
		says string
	}{
		{"few requests", roofline.Snapshot{Statistics: measured(19, 0, 0, 8, 0)}, admin.BoundFew, "19 requests"},
		{"queue", roofline.Snapshot{Statistics: measured(50, 20, 0, 8, 0)}, admin.BoundQueue, "wait 20.0 ms of 28.0 ms"},
		{"copies", roofline.Snapshot{Statistics: measured(50, 0, 2, 3, 4)}, admin.BoundCopies, "6.0 ms of 9.0 ms"},
		{
			"the box", roofline.Snapshot{Statistics: lasting(measured(50, 0.02, 0.01, 0.02, 0.01), 200*time.Microsecond), Roofline: machine()},
			admin.BoundBox, "140 us of 200 us are outside of queue, copies and run",
		},
		{"no ONNX model", roofline.Snapshot{Statistics: measured(50, 0, 0, 8, 0), Roofline: machine()}, admin.BoundRun, "infer 8.0 ms of 8.0 ms"},
		{"a processor that was not measured", roofline.Snapshot{
			Statistics: measured(50, 0, 0, 8, 0), Work: &admin.RunWork{Operations: 600e6},
		}, admin.BoundRun, "infer 8.0 ms"},
		{"another device", roofline.Snapshot{
			Statistics: measured(50, 0, 0, 8, 0), Work: &admin.RunWork{Operations: 600e6}, Roofline: machine(), Elsewhere: "gpu:0",
		}, admin.BoundRun, "infer 8.0 ms"},
		{"compute", roofline.Snapshot{
			Statistics: measured(50, 0.5, 0.1, 8, 0.2), Work: &admin.RunWork{Operations: 648e6, Bytes: 14e6, Set: 14e6}, Weights: 14e6,
			Roofline: machine(), Threads: 1,
		}, admin.BoundCompute, "infer 8.0 ms of 8.8 ms; 0.65 GFLOP at 81.0 GFLOP/s, 81 % of what one core does: compute"},
		{"compute of runs that have all cores", roofline.Snapshot{
			Statistics: measured(50, 0, 0, 4, 0), Work: &admin.RunWork{Operations: 600e6, Bytes: 14e6, Set: 14e6}, Weights: 14e6,
			Roofline: machine(), Threads: 1, Solo: 2,
		}, admin.BoundCompute, "150 GFLOP/s, 75 % of what 2 cores do: compute"},
		{"memory", roofline.Snapshot{
			Statistics: measured(50, 0, 0, 10, 0), Work: &admin.RunWork{Operations: 40e6, Bytes: 80e6, Set: 80e6}, Weights: 80e6,
			Roofline: machine(), Threads: 1,
		}, admin.BoundMemory, "80.0 MB moved at 8.0 GB/s, 80 % of what one core does: memory bandwidth"},
		{"what fits into the cache is not bound by memory", roofline.Snapshot{
			Statistics: measured(50, 0, 0, 0.1, 0), Work: &admin.RunWork{Operations: 4e5, Bytes: 9e5, Set: 9e5, Nodes: 3}, Weights: 9e5,
			Roofline: machine(), Threads: 1,
		}, admin.BoundOperators, "neither"},
		{"small operators", roofline.Snapshot{
			Statistics: measured(50, 0, 0, 0.2, 0), Roofline: machine(), Threads: 1,
			Work: &admin.RunWork{Operations: 1e5, Bytes: 1e4, Set: 1e4, Nodes: 150},
		}, admin.BoundSmall, "150 operators take 1.0 us each at least, 75 % of it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if b := roofline.Decide(c.s); b.Kind != c.want || !strings.Contains(b.Sentence, c.says) {
				t.Errorf("%s, %q: want %s, with %q", b.Kind, b.Sentence, c.want, c.says)
			}
		})
	}
}

// TestTheWorkOfARunIsKnownWhateverBoundsTheVersion is for those who read the figures beside the sentence.
func TestTheWorkOfARunIsKnownWhateverBoundsTheVersion(t *testing.T) {
	b := roofline.Decide(roofline.Snapshot{
		Statistics: measured(50, 20, 0, 8, 0), Work: &admin.RunWork{Operations: 600e6, Bytes: 14e6, Set: 14e6}, Roofline: machine(), Threads: 1,
	})
	if b.Kind != admin.BoundQueue || b.Work == nil || b.Work.Operations != 600e6 || b.Roofline == nil || b.Share < 0.7 {
		t.Errorf("%+v", b)
	}
}

func TestABatchMovesItsWeightsOnce(t *testing.T) {
	s := roofline.Snapshot{
		Work: &admin.RunWork{Operations: 2e6, Bytes: 81e6, Set: 81e6}, Weights: 80e6, Roofline: machine(), Threads: 1,
	}
	for range 30 {
		timing := edgewise.Timing{Infer: 10 * time.Millisecond, Batch: 4}
		s.Statistics.Executed(time.Now(), timing)
		s.Statistics.Succeeded(timing.Infer, timing)
	}
	if b := roofline.Decide(s); b.Work.Operations != 8e6 || b.Work.Bytes != 84e6 || b.Batch != 4 {
		t.Errorf("%+v", b.Work)
	}
}

func TestAnEnsembleIsBoundByItsSlowestStep(t *testing.T) {
	s := measured(30, 0, 0, 0, 0)
	s.Success.Total = 30 * 10 * time.Millisecond
	s.Steps = []edgewise.StepStatistics{
		{Model: edgewise.ModelID{Name: "a", Version: 1}, Success: edgewise.Duration{Count: 30, Total: 60 * time.Millisecond}},
		{Model: edgewise.ModelID{Name: "b", Version: 2}, Success: edgewise.Duration{Count: 30, Total: 240 * time.Millisecond}},
	}
	b := roofline.Decide(roofline.Snapshot{Statistics: s})
	if b.Kind != admin.BoundStep || b.Step.Model != "b" || !strings.Contains(b.Sentence, "step b takes 8.0 ms for each request of 10.0 ms") {
		t.Errorf("%+v", b)
	}
}

func TestOperatorsThatAreNotKnownAreNamed(t *testing.T) {
	b := roofline.Decide(roofline.Snapshot{
		Statistics: measured(50, 0, 0, 8, 0), Roofline: machine(), Threads: 1,
		Work: &admin.RunWork{Operations: 600e6, Unknown: map[string]int{"NonZero": 2}, Inputs: "generated", Integer: 300e6},
	})
	text := strings.Join(b.Unsaid, "\n")
	for _, want := range []string{"2 NonZero", "made up", "50 % of the operations are on integers"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

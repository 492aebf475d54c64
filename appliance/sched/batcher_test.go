package sched

import (
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// waiting makes jobs of the given sizes; a negative one has another shape. They arrived one millisecond after the
// other.
func waiting(epoch time.Time, sizes ...int) []*job {
	var list []*job
	for i, n := range sizes {
		width := int64(1)
		if n < 0 {
			n, width = -n, 2
		}
		j := newJob()
		j.batch, j.arrived, j.want = n, epoch.Add(time.Duration(i)*time.Millisecond), []string{"y"}
		j.inputs = []edgewise.Tensor{{Name: "x", Shape: edgewise.Shape{int64(n), width}}}
		list = append(list, j)
	}
	return list
}

func TestFormer(t *testing.T) {
	epoch := time.Unix(1000, 0)
	const ms = time.Millisecond
	tests := []struct {
		name      string
		preferred []int
		sizes     []int
		m         moment // now counts from the first arrival
		after     time.Duration
		ends      time.Duration // of the first job
		want      plan
	}{
		{"nothing", []int{8}, nil, moment{}, 0, 0, plan{}},
		{"one job is not kept waiting", []int{8}, []int{1}, moment{}, 0, 0, plan{take: 1, reason: closedIdle}},
		{"all that is there", []int{8}, []int{1, 2, 3}, moment{}, 0, 0, plan{take: 3, reason: closedIdle}},
		{"up to the largest batch", []int{8}, []int{1, 2, 5, 1}, moment{}, 0, 0, plan{
			take: 3, reason: closedFull,
		}},
		{"a job that would exceed it closes", []int{8}, []int{4, 3, 2, 1}, moment{}, 0, 0, plan{
			take: 2, reason: closedFull,
		}},
		{"the first mismatch closes", []int{8}, []int{1, 1, -1, 1}, moment{}, 0, 0, plan{
			take: 2, reason: closedShape,
		}},
		{"batching off", []int{8}, []int{1, 1}, moment{single: true}, 0, 0, plan{take: 1, reason: closedOff}},
		{"a job as large as a batch", []int{8}, []int{8, 1}, moment{}, 0, 0, plan{take: 1, reason: closedFull}},
		{"the largest preferred size", []int{2, 4}, []int{1, 1, 1, 1, 1}, moment{}, 0, 0, plan{
			take: 4, reason: closedPreferred,
		}},
		{"the reachable preferred size", []int{2, 4}, []int{1, 1, 1}, moment{}, 0, 0, plan{
			take: 2, reason: closedPreferred,
		}},
		{"what is there without a preferred one", []int{4}, []int{1, 1}, moment{}, 0, 0, plan{
			take: 2, reason: closedIdle,
		}},
		{"stepping over the largest preferred size", []int{4}, []int{3, 2}, moment{}, 0, 0, plan{
			take: 1, reason: closedPreferred,
		}},
		{"a job above every preferred size", []int{4}, []int{6}, moment{}, 0, 0, plan{
			take: 1, reason: closedPreferred,
		}},
		{"a delay waits for the oldest", []int{8}, []int{1, 1}, moment{delay: 5 * ms}, 2 * ms, 0, plan{wait: 3 * ms}},
		{"a delay ends", []int{8}, []int{1, 1}, moment{delay: 5 * ms}, 5 * ms, 0, plan{
			take: 2, reason: closedDelay,
		}},
		{"a delay ends behind a preferred size", []int{2, 8}, []int{1, 1, 1}, moment{delay: 5 * ms}, 5 * ms, 0, plan{
			take: 3, reason: closedDelay,
		}},
		{"a delay stops at a preferred size", []int{2}, []int{1, 1}, moment{delay: 5 * ms}, ms, 0, plan{
			take: 2, reason: closedPreferred,
		}},
		{"a delay stops when full", []int{8}, []int{4, 4}, moment{delay: 5 * ms}, ms, 0, plan{
			take: 2, reason: closedFull,
		}},
		{"a delay stops at a mismatch", []int{8}, []int{1, -1}, moment{delay: 5 * ms}, ms, 0, plan{
			take: 1, reason: closedShape,
		}},
		{
			"a delay takes half of a request's time",
			[]int{8},
			[]int{1},
			moment{delay: 5 * ms},
			ms, 4 * ms,
			plan{wait: ms},
		},
		{"and no more", []int{8}, []int{1, 1}, moment{delay: 5 * ms}, 2 * ms, 4 * ms, plan{
			take: 2, reason: closedDeadline,
		}},
		{
			"a request's time that leaves the whole delay",
			[]int{8},
			[]int{1},
			moment{delay: 5 * ms},
			ms, 12 * ms,
			plan{wait: 4 * ms},
		},
		{"nothing more comes when closing", []int{8}, []int{1}, moment{delay: 5 * ms, ending: true}, ms, 0, plan{
			take: 1, reason: closedIdle,
		}},
		{"everybody expected is here", []int{8}, []int{1, 1}, moment{delay: 5 * ms, expected: 2}, ms, 0, plan{
			take: 2, reason: closedIdle,
		}},
		{"more are expected", []int{8}, []int{1, 1}, moment{delay: 5 * ms, expected: 3}, ms, 0, plan{wait: 4 * ms}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := batcher{most: 8, preferred: test.preferred}
			list := waiting(epoch, test.sizes...)
			if test.ends > 0 {
				list[0].ends = epoch.Add(test.ends)
			}
			test.m.now = epoch.Add(test.after)
			if got := f.form(list, test.m); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestJobsThatFit(t *testing.T) {
	base := func() *job {
		j := newJob()
		j.batch, j.want = 1, []string{"y", "z"}
		j.inputs = []edgewise.Tensor{{Name: "a", Shape: edgewise.Shape{1, 2}}, {Name: "b", Shape: edgewise.Shape{1}}}
		return j
	}
	tests := []struct {
		name   string
		change func(*job)
		want   bool
	}{
		{"another batch size", func(j *job) { j.inputs[0].Shape[0], j.inputs[1].Shape[0] = 3, 3 }, true},
		{"no rows", func(j *job) { j.batch, j.inputs[0].Shape[0], j.inputs[1].Shape[0] = 0, 0, 0 }, false},
		{"another shape", func(j *job) { j.inputs[0].Shape[1] = 3 }, false},
		{"another rank", func(j *job) { j.inputs[1].Shape = edgewise.Shape{1, 1} }, false},
		{"a missing input", func(j *job) { j.inputs = j.inputs[:1] }, false},
		{"another input", func(j *job) { j.inputs[1].Name = "c" }, false},
		{"fewer outputs", func(j *job) { j.want = j.want[:1] }, true},
		{"outputs in another order", func(j *job) { j.want = []string{"z", "y"} }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			j := base()
			test.change(j)
			if got := base().fits(j); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestASingleClientIsExpectedToStaySingle(t *testing.T) {
	var l load
	round := func(clients int) int {
		l.arrived(clients)
		expected := l.expected()
		l.taken(clients)
		l.finished(clients)
		return expected
	}
	for i, step := range []struct{ clients, want int }{{1, 1}, {1, 1}, {4, 4}, {4, 4}, {1, 4}, {1, 4}, {1, 1}, {1, 1}} {
		if got := round(step.clients); got != step.want {
			t.Errorf("round %d: %d expected, want %d", i, got, step.want)
		}
	}
}

func TestAdaptiveDelayIsHalfARunWithinItsBounds(t *testing.T) {
	tests := []struct {
		name            string
		run, configured time.Duration
		want            time.Duration
	}{
		{"unknown", 0, 0, 0},
		{"tiny", tinyRun - 1, 0, 0},
		{"not tiny", tinyRun, 0, tinyRun / 2},
		{"long", time.Second, 0, maxAutoDelay},
		{"long, with a bound", time.Second, time.Millisecond, time.Millisecond},
		{"long, with a large bound", time.Second, time.Hour, time.Second / 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var p pace
			if test.run > 0 {
				p.add(test.run)
			}
			if got := p.autoDelay(test.configured); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

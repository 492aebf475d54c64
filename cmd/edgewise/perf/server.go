package perf

import (
	"time"

	"github.com/edgewise-ai/edgewise/api/kserve"
)

// How long reading the server's counters may take.
const (
	statisticsTimeout  = 5 * time.Second
	interruptedTimeout = 500 * time.Millisecond // once the measurement is to end
)

// Server is what the server itself measured in the reported windows, from the differences of its counters: mean
// microseconds of a request. All requests to the model are in it, from whomever.
type Server struct {
	Queue         float64 `json:"queue_us"`          // waiting for the model
	ComputeInput  float64 `json:"compute_input_us"`  // making the inputs ready
	ComputeInfer  float64 `json:"compute_infer_us"`  // running the model
	ComputeOutput float64 `json:"compute_output_us"` // making the outputs ready
	Batch         float64 `json:"batch"`             // mean elements of an execution
	Requests      uint64  `json:"requests"`          // that succeeded
	Failed        uint64  `json:"failed"`
}

// counter is the part of a version's statistics that is used.
type counter struct {
	success, fail                                    uint64
	queue, computeInput, computeInfer, computeOutput kserve.StatisticsCount
	inferences, executions                           uint64
}

type versionKey struct{ name, version string }

// counters are those of all versions of a model.
type counters map[versionKey]counter

func countersOf(b *kserve.StatisticsBody) counters {
	all := counters{}
	for _, m := range b.ModelStats {
		s := m.InferenceStats
		all[versionKey{m.Name, m.Version}] = counter{
			success: s.Success.Count, fail: s.Fail.Count,
			queue: s.Queue, computeInput: s.ComputeInput, computeInfer: s.ComputeInfer, computeOutput: s.ComputeOutput,
			inferences: m.InferenceCount, executions: m.ExecutionCount,
		}
	}
	return all
}

// since returns the difference to earlier counters. A version that counts less than before was loaded again and counts
// from 0.
func (c counters) since(before counters) counters {
	difference := counters{}
	for k, now := range c {
		b := before[k]
		if now.success < b.success || now.executions < b.executions {
			b = counter{}
		}
		difference[k] = now.plus(b, -1)
	}
	return difference
}

// plus adds o, or subtracts it when sign is -1.
func (c counter) plus(o counter, sign int64) counter {
	add := func(a *uint64, b uint64) { *a += uint64(sign) * b }
	both := func(a *kserve.StatisticsCount, b kserve.StatisticsCount) {
		add(&a.Count, b.Count)
		add(&a.NS, b.NS)
	}
	add(&c.success, o.success)
	add(&c.fail, o.fail)
	add(&c.inferences, o.inferences)
	add(&c.executions, o.executions)
	both(&c.queue, o.queue)
	both(&c.computeInput, o.computeInput)
	both(&c.computeInfer, o.computeInfer)
	both(&c.computeOutput, o.computeOutput)
	return c
}

// serverOf sums up what the server counted in the windows; nil when it was not read in all of them.
func serverOf(windows []window) *Server {
	var sum counter
	for _, w := range windows {
		if !w.known {
			return nil
		}
		for _, c := range w.server {
			sum = sum.plus(c, 1)
		}
	}
	s := &Server{
		Queue: meanOf(sum.queue), ComputeInput: meanOf(sum.computeInput),
		ComputeInfer: meanOf(sum.computeInfer), ComputeOutput: meanOf(sum.computeOutput),
		Requests: sum.success, Failed: sum.fail,
	}
	if sum.executions > 0 {
		s.Batch = float64(sum.inferences) / float64(sum.executions)
	}
	return s
}

// meanOf returns mean microseconds.
func meanOf(c kserve.StatisticsCount) float64 {
	if c.Count == 0 {
		return 0
	}
	return rounded(float64(c.NS) / float64(c.Count) / 1e3)
}

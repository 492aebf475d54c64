package main

import (
	"context"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

const joinedTime, joinedClients = time.Second, 64

// joinedGoals are times the rate without batches: a run of the network on many rows takes a little longer, and tensors are
// copied for each request.
var joinedGoals = map[int]float64{8: 3, 32: 4}

// joinedFigures hold batches of requests to a Python model against requests one by one.
func joinedFigures(r *run) {
	b, in := r.startBox(), noise(edgewise.Shape{1, 2048})
	const tensors = "input { name: \"input\" data_type: TYPE_FP32 dims: [ 2048 ] }\n" +
		"output { name: \"output\" data_type: TYPE_FP32 dims: [ 16 ] }\n"
	batches := []int{1, 8, 32}
	var sides []side
	executions, requests := make([]uint64, len(batches)), make([]uint64, len(batches))
	for i, size := range batches {
		config := fmt.Sprintf("backend: \"python\"\nmax_batch_size: %d\n%s", size, tensors)
		name := fmt.Sprintf("recurrent%d", size)
		if size > 1 {
			config += "dynamic_batching { }\n"
		}
		r.pushPython(b, name, config, "recurrent.py")
		clients := r.clients(b, name, in, kserve.Binary, anywhere)
		sides = append(sides, side{fmt.Sprintf("batches of at most %d", size), func() (sample, error) {
			before, err := b.counts(name)
			if err != nil {
				return sample{}, err
			}
			s, err := clients.loop(joinedClients, joinedTime)
			if err != nil {
				return s, err
			}
			after, err := b.counts(name)
			executions[i] += after.ExecutionCount - before.ExecutionCount
			requests[i] += after.InferenceCount - before.InferenceCount
			return s, err
		}})
	}
	all := r.machine().interleave(sides)
	for i, size := range batches[1:] {
		i++
		r.report(
			atLeast(fmt.Sprintf("Python model, max_batch_size %d: requests of an execution", size),
				float64(requests[i])/float64(executions[i]), 0.9*float64(size), "", fmt.Sprintf("%d requests of %d clients in %d executions",
					requests[i], joinedClients, executions[i])),
			atLeast(fmt.Sprintf("Python model, max_batch_size %d: rate / without batches", size), all[i].over(all[0]), joinedGoals[size], "x",
				fmt.Sprintf("%.0f/s against %.0f/s", all[i].rate(), all[0].rate())),
		)
	}
	r.latencies(fmt.Sprintf("A recurrent network of 128 steps in numpy, %s", count(joinedClients)), "ms", sides, all)
}

// counts are the statistics of a model.
func (b *box) counts(model string) (kserve.ModelStatistics, error) {
	all, err := b.client.Statistics(context.Background(), edgewise.ModelID{Name: model})
	if err != nil || len(all.ModelStats) != 1 {
		return kserve.ModelStatistics{}, fmt.Errorf("statistics of %s: %v %w", model, all, err)
	}
	return all.ModelStats[0], nil
}

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// stateful keeps a sum for each sequence in the memory of its process, and answers it with the number of the process.
const stateful = `import os
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
  def initialize(self, args):
    self.sums = {}
  def execute(self, requests):
    answers = []
    for r in requests:
      id, flags = r.correlation_id(), r.flags()
      if id and flags & pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
        self.sums[id] = 0.0
      self.sums[id] = self.sums.get(id, -1000.0) + float(pb.get_input_tensor_by_name(r, "IN").as_numpy().sum())
      out = np.array([[self.sums[id], os.getpid()]], np.float64)
      answers.append(pb.InferenceResponse([pb.Tensor("OUT", out)]))
    return answers
`

// statefulConfiguration is that of the model with three processes.
const statefulConfiguration = `backend: "python"
max_batch_size: 4
input { name: "IN" data_type: TYPE_FP64 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP64 dims: [ 2 ] }
instance_group { count: 3 }
sequence_batching { max_sequence_idle_microseconds: 60000000 oldest { max_candidate_sequences: 4 } }`

// TestASequenceStaysOnItsProcess runs sequences side by side on three processes, each of which keeps the state of its own.
// Then there is one process, and all are on it.
func TestASequenceStaysOnItsProcess(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.pushPython(t, "sums", statefulConfiguration, stateful, nil)
	if n := b.sequencesOfSums(t, 9); n != 3 {
		t.Errorf("9 sequences were on %d processes, want 3", n)
	}
	b.regroup("sums", 1)
	if n := b.sequencesOfSums(t, 4); n != 1 {
		t.Errorf("4 sequences were on %d processes, want 1", n)
	}
	b.regroup("sums", 2)
	if n := b.sequencesOfSums(t, 6); n != 2 {
		t.Errorf("6 sequences were on %d processes, want 2", n)
	}
}

// slots keeps a sum for each place in a batch, which is the slot of its sequence, and says what it finds wrong.
const slots = `import time
import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
  def initialize(self, args):
    self.sums, self.ids = [0.0] * 4, [0] * 4
  def execute(self, requests):
    time.sleep(0.002)
    answers = []
    for slot, r in enumerate(requests):
      of = lambda name: pb.get_input_tensor_by_name(r, name).as_numpy().reshape(())
      id, flags, wrong = r.correlation_id(), r.flags(), 0
      if (id != 0) != bool(of("READY")) or int(of("CORRID")) != id:
        wrong = 1
      if bool(flags & pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != bool(of("START")):
        wrong = 2
      if of("START"):
        self.sums[slot], self.ids[slot] = 0.0, id
      if id and self.ids[slot] != id:
        wrong = 3
      if id:
        self.sums[slot] += float(of("IN"))
      out = np.array([[self.sums[slot], 1000 * len(requests) + 10 * slot + wrong]], np.float64)
      answers.append(pb.InferenceResponse([pb.Tensor("OUT", out)]))
    return answers
`

// slotsConfiguration is that of the strategy direct, where the rows of a batch are slots.
const slotsConfiguration = `backend: "python"
max_batch_size: 4
input { name: "IN" data_type: TYPE_FP64 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP64 dims: [ 2 ] }
sequence_batching {
  direct { }
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } },
    { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } },
    { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  ]
}`

// TestASlotOfTheStrategyDirectIsAPlaceInTheBatch runs four sequences side by side in one process, which knows them by their
// places in its batches.
func TestASlotOfTheStrategyDirectIsAPlaceInTheBatch(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.pushPython(t, "sums", slotsConfiguration, slots, nil)
	merged := 0
	for on := range b.sumsOf(t, 4) {
		size, rest := int(on)/1000, int(on)%1000
		if rest%10 != 0 || rest/10 >= size {
			t.Errorf("place %d of %d requests, fault %d", rest/10, size, rest%10)
		}
		if size > 1 {
			merged++
		}
	}
	if merged == 0 {
		t.Error("no requests were together in a batch")
	}
}

// sumsOf runs sequences of the model at the same time, checks their sums, and returns the second number of each answer.
func (b *box) sumsOf(t *testing.T, sequences int) map[float64]bool {
	t.Helper()
	found := map[float64]bool{}
	b.sums(t, sequences, func(_, _ int, second float64) { found[second] = true })
	return found
}

// sequencesOfSums runs sequences of the model at the same time, checks their sums and counts their processes.
func (b *box) sequencesOfSums(t *testing.T, sequences int) (processes int) {
	t.Helper()
	on := make([]float64, sequences)
	b.sums(t, sequences, func(n, i int, pid float64) {
		if i > 0 && pid != on[n] {
			t.Errorf("sequence %d, request %d: it is on process %v, and was on %v", n+1, i, pid, on[n])
		}
		on[n] = pid
	})
	distinct := map[float64]bool{}
	for _, pid := range on {
		distinct[pid] = true
	}
	return len(distinct)
}

// sums runs sequences of the model at the same time and checks their sums. told is called with the sequence, the request
// and the second number of its answer, once at a time.
func (b *box) sums(t *testing.T, sequences int, told func(n, i int, second float64)) {
	t.Helper()
	const length = 12
	var running sync.WaitGroup
	var telling sync.Mutex
	begun := new(sync.WaitGroup) // all are there before one ends
	begun.Add(sequences)
	for n := range sequences {
		running.Go(func() {
			for i := range length {
				body := fmt.Sprintf(`{"inputs":[{"name":"IN","datatype":"FP64","shape":[1,1],"data":[%d]}],
					"parameters":{"sequence_id":%d,"sequence_start":%v,"sequence_end":%v}}`, n+1, n+1, i == 0, i == length-1)
				status, answer := b.send(http.MethodPost, "/v2/models/sums/infer", []byte(body), "Content-Type", mimeJSON)
				if i == 0 {
					begun.Done()
					begun.Wait()
				}
				var sum, second float64
				_, data, _ := strings.Cut(answer, `"data":[`)
				if _, err := fmt.Sscanf(data, "%g,%g]", &sum, &second); err != nil || status != http.StatusOK {
					t.Errorf("sequence %d: %d %s", n+1, status, answer)
					return
				}
				if sum != float64((n+1)*(i+1)) {
					t.Errorf("sequence %d, request %d: sum %v", n+1, i, sum)
				}
				telling.Lock()
				told(n, i, second)
				telling.Unlock()
			}
		})
	}
	running.Wait()
}

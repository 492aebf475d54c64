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

// sequencesOfSums runs sequences of the model at the same time, checks their sums and counts their processes.
func (b *box) sequencesOfSums(t *testing.T, sequences int) (processes int) {
	t.Helper()
	const length = 12
	var running sync.WaitGroup
	begun := new(sync.WaitGroup) // all are there before one ends
	begun.Add(sequences)
	on := make([]float64, sequences)
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
				var sum, pid float64
				_, data, _ := strings.Cut(answer, `"data":[`)
				if _, err := fmt.Sscanf(data, "%g,%g]", &sum, &pid); err != nil || status != http.StatusOK {
					t.Errorf("sequence %d: %d %s", n+1, status, answer)
					return
				}
				if sum != float64((n+1)*(i+1)) || i > 0 && pid != on[n] {
					t.Errorf("sequence %d, request %d: sum %v on process %v, which was %v", n+1, i, sum, pid, on[n])
				}
				on[n] = pid
			}
		})
	}
	running.Wait()
	distinct := map[float64]bool{}
	for _, pid := range on {
		distinct[pid] = true
	}
	return len(distinct)
}

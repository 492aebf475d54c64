package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const raggedConfig = `
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true }
output [ { name: "double" data_type: TYPE_FP32 dims: [-1] }, { name: "counts" data_type: TYPE_FP32 dims: [1] } ]
batch_input [
  { kind: BATCH_ELEMENT_COUNT target_name: "count" data_type: TYPE_FP32 source_input: "x" },
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "sum" data_type: TYPE_INT32 source_input: "x" },
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "begin" data_type: TYPE_INT32 source_input: "x" },
  { kind: BATCH_MAX_ELEMENT_COUNT_AS_SHAPE target_name: "most" data_type: TYPE_FP32 source_input: "x" },
  { kind: BATCH_ITEM_SHAPE target_name: "shape" data_type: TYPE_INT32 source_input: "x" },
  { kind: BATCH_ITEM_SHAPE_FLATTEN target_name: "flatshape" data_type: TYPE_INT32 source_input: "x" }
]
batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "double" source_input: "x" }
dynamic_batching { max_queue_delay_microseconds: 20000 }
`

// TestRaggedBatches sends requests of many lengths at once, to the model in a child process: each gets its own back.
func TestRaggedBatches(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := onnxgen.Ragged().Save(filepath.Join(folder, "ragged", "1")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "ragged", "config.pbtxt"), []byte(raggedConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	b := serveReady(t, t.TempDir(), "--import", folder, "--set", "engine.isolation=process")
	var clients sync.WaitGroup
	for n := 1; n <= 40; n++ {
		clients.Go(func() {
			var data []float32
			for i := range n {
				data = append(data, float32(100*n+i))
			}
			values, err := json.Marshal(data)
			if err != nil {
				t.Error(err)
			}
			for i := range data {
				data[i] *= 2
			}
			got := b.infer("ragged", fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,%d],"data":%s}]}`, n, values))
			if !slices.Equal(got["double"], data) || !slices.Equal(got["counts"], []float32{float32(n)}) {
				t.Errorf("a request of %d elements: got %v", n, got)
			}
		})
	}
	clients.Wait()
	stats, err := b.client.Statistics(t.Context(), edgewise.ModelID{Name: "ragged"})
	if err != nil || stats.ModelStats[0].InferenceCount != 40 || stats.ModelStats[0].ExecutionCount >= 40 {
		t.Errorf("statistics %+v, %v", stats, err)
	}
	b.stop()
}

package real

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const raggedConfig = `
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true }
output [
  { name: "double" data_type: TYPE_FP32 dims: [-1] }, { name: "counts" data_type: TYPE_FP32 dims: [1] },
    { name: "sums" data_type: TYPE_INT32 dims: [1] },
  { name: "begins" data_type: TYPE_INT32 dims: [1] }, { name: "shapes" data_type: TYPE_INT32 dims: [1] },
    { name: "flat" data_type: TYPE_INT32 dims: [1] },
  { name: "largest" data_type: TYPE_INT64 dims: [1] }
]
batch_input [
  { kind: BATCH_ELEMENT_COUNT target_name: "count" data_type: TYPE_FP32 source_input: "x" },
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "sum" data_type: TYPE_INT32 source_input: "x" },
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "begin" data_type: TYPE_INT32 source_input: "x" },
  { kind: BATCH_MAX_ELEMENT_COUNT_AS_SHAPE target_name: "most" data_type: TYPE_FP32 source_input: "x" },
  { kind: BATCH_ITEM_SHAPE target_name: "shape" data_type: TYPE_INT32 source_input: "x" },
  { kind: BATCH_ITEM_SHAPE_FLATTEN target_name: "flatshape" data_type: TYPE_INT32 source_input: "x" }
]
batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "double" source_input: "x" }
dynamic_batching { max_queue_delay_microseconds: 60000000 }
instance_group { count: 1 }
`

// TestRaggedBatch runs four requests of different lengths as one batch on ONNX Runtime. Each gets twice what it sent,
// in its own shape, and the model was told of the batch in every way that there is.
func TestRaggedBatch(t *testing.T) {
	s := ragged(t)
	lengths := []int{3, 1, 7, 4}
	answers := make([]*edgewise.Response, len(lengths))
	var clients sync.WaitGroup
	for i, n := range lengths {
		clients.Go(func() {
			var err error
			if answers[i], err = s.Infer(t.Context(), numbered(n, i)); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
	seen := map[string][]float64{} // what is said to all requests, by output
	for i, r := range answers {
		for _, out := range r.Outputs {
			values := decoded(out)
			if out.Name != "double" {
				seen[out.Name] = append(seen[out.Name], values...)
				continue
			}
			want := decoded(numbered(lengths[i], i).Inputs[0])
			for k := range want {
				want[k] *= 2
			}
			if !out.Shape.Equal(edgewise.Shape{1, int64(lengths[i])}) || !slices.Equal(values, want) {
				t.Errorf("request %d: got %v%v, want %v", i, out.Shape, values, want)
			}
		}
		if r.Timing.Batch != 4 {
			t.Errorf("request %d ran in a batch of %d", i, r.Timing.Batch)
		}
		if begin, sum, count := seen["begins"][i], seen["sums"][i], seen["counts"][i]; sum-begin != count || count != float64(lengths[i]) {
			t.Errorf("request %d of %d elements is told %v elements from %v to %v", i, lengths[i], count, begin, sum)
		}
		r.Release()
	}
	for name, want := range map[string][]float64{"shapes": {3, 1, 7, 4}, "flat": {3, 1, 7, 4}, "largest": {7, 7, 7, 7}} {
		if !slices.Equal(seen[name], want) {
			t.Errorf("%s are %v, want %v", name, seen[name], want)
		}
	}
	if got := slices.Max(seen["sums"]); got != 15 || slices.Min(seen["begins"]) != 0 {
		t.Errorf("the batch ends at %v", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func ragged(t *testing.T) *sched.Scheduler {
	t.Helper()
	v, instance := instanceOf(t, "ragged", onnxgen.Ragged(), raggedConfig)
	return sched.New(v, instance, sched.Config{Instances: 1, MaxQueue: 100, Logger: slog.New(slog.DiscardHandler)})
}

func numbered(n, from int) *edgewise.Request {
	var data []byte
	for i := range n {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(10*from+i)))
	}
	return &edgewise.Request{
		ID:     fmt.Sprint(from),
		Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, int64(n)}, Data: data}},
	}
}

func decoded(t edgewise.Tensor) []float64 {
	var values []float64
	for at := 0; at < len(t.Data); at += int(t.Type.Size()) {
		switch t.Type {
		case edgewise.Int64:
			values = append(values, float64(int64(binary.LittleEndian.Uint64(t.Data[at:]))))
		case edgewise.Int32:
			values = append(values, float64(int32(binary.LittleEndian.Uint32(t.Data[at:]))))
		default:
			values = append(values, float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[at:]))))
		}
	}
	return values
}

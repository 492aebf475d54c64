package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const optionalConfig = `max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [4] }, { name: "bias" data_type: TYPE_FP32 dims: [4] optional: true } ]
output { name: "y" data_type: TYPE_FP32 dims: [4] }
dynamic_batching { max_queue_delay_microseconds: 2000 }
`

// TestOptionalInputsInBatches sends requests of several rows with and without an optional input at once. Each row of one
// that is left out is 1, 2, 3, 4.
func TestOptionalInputsInBatches(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	model := onnxgen.OptionalInput()
	model.Graph.Initializers = []onnxgen.Tensor{onnxgen.Floats("bias", []int64{1, 4}, 1, 2, 3, 4)}
	model.Graph.Inputs[1].Dims = onnxgen.Batch(4)
	if err := model.Save(filepath.Join(folder, "optional", "1")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "optional", "config.pbtxt"), []byte(optionalConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	b := serveReady(t, t.TempDir(), "--import", folder)
	var clients sync.WaitGroup
	for n := range 48 {
		clients.Go(func() {
			rows, bias := n%3+1, ""
			var want []float32
			values := ""
			for i := range 4 * rows {
				values += fmt.Sprintf(",%d", 100*n+i)
				sum := float32(100*n + i + i%4 + 1)
				if n%2 == 0 {
					sum = float32(100*n + i + n)
				}
				want = append(want, sum)
			}
			if n%2 == 0 {
				list := ""
				for range 4 * rows {
					list += fmt.Sprintf(",%d", n)
				}
				bias = fmt.Sprintf(`,{"name":"bias","datatype":"FP32","shape":[%d,4],"data":[%s]}`, rows, list[1:])
			}
			got := b.infer("optional", fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[%d,4],"data":[%s]}%s]}`,
				rows, values[1:], bias))
			if !slices.Equal(got["y"], want) {
				t.Errorf("request %d: got %v, want %v", n, got, want)
			}
		})
	}
	clients.Wait()
	b.stop()
}

package e2e

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

var vulkanGenerated = flag.Int("e2e.generated", 30, "how many generated models are served on a Vulkan device")

// TestGeneratedModelsOnVulkanAnswerAsTheCPU pushes generated models, one as the next version of the other, to a model on
// the CPU and to one on a Vulkan device, and asks both with batches that fill a size and that are filled up, while a client
// asks a third model on the device all the time.
func TestGeneratedModelsOnVulkanAnswerAsTheCPU(t *testing.T) {
	t.Parallel()
	settings := append(onVulkan(t, vulkanLoader, swiftShader), "--import", lossRepository(t), "--set", "engine.load_timeout=15m")
	b := serveReady(t, t.TempDir(), settings...)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if version, err := biasedVersion(http.DefaultClient, b.url, "cat"); err != nil || version != 1 {
				t.Errorf("a model beside them: %d, %v", version, err)
				return
			}
		}
	})
	defer asking.Wait()
	defer close(stop)
	for seed := range *vulkanGenerated {
		m, row := onnxgen.Chain(uint64(seed))
		for name, config := range map[string]string{"gpu": tinyOnGPU, "cpu": "max_batch_size: 4\ninstance_group { kind: KIND_CPU }\n"} {
			dir := save(t, m)
			if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			b.must("model", "push", name, dir)
		}
		for _, rows := range []int{4, 3} {
			body := shaped(numbers(rows, product(row), uint64(seed)), rows, row)
			want, got := b.infer("cpu", body), b.infer("gpu", body)
			if len(want) != 2 || !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))) {
				t.Errorf("model %d: the outputs are %v, want %v", seed, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
			for output := range want {
				if d := relative(want[output], got[output]); d > vulkanTolerance {
					t.Errorf("model %d with %d rows: output %s differs by %g of its largest number", seed, rows, output, d)
				}
			}
		}
	}
	b.wantOn("vulkan:0", []string{"gpu", "cat"}, []string{"cpu"})
	b.terminate()
}

func product(dims []int64) (n int) {
	n = 1
	for _, d := range dims {
		n *= int(d)
	}
	return n
}

// shaped gives the numbers of a request the shape of rows of a generated model's input.
func shaped(body string, rows int, row []int64) string {
	shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(append([]int64{int64(rows)}, row...)), "[]"), " ", ",")
	body = strings.Replace(body, fmt.Sprintf("[%d,%d]", rows, product(row)), "["+shape+"]", 1)
	return strings.Replace(body, `"input"`, `"x"`, 1)
}

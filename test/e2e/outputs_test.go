package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// stretched makes y = n zeros, FP32, of the INT64 n [1].
func stretched() *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:   []onnxgen.Node{{Op: "ConstantOfShape", In: []string{"n"}, Out: []string{"y"}}},
		Inputs:  []onnxgen.Value{{Name: "n", Type: onnxgen.Int64, Dims: onnxgen.Dims(1)}},
		Outputs: []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: []onnxgen.Dim{{Name: "length"}}}},
	}}
}

// proportionalMemory returns the bytes that processes take, where what several share counts once.
func proportionalMemory(t *testing.T, pids ...int) (total int64) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		total += n << 10
	}
	return total
}

// TestMemoryOfLargeOutputsComesBack asks for answers of 160 MB and more, each larger than the last, and then for none:
// the box, its child and what they share take again what they took before, and the child is the same.
func TestMemoryOfLargeOutputsComesBack(t *testing.T) {
	for _, isolation := range []string{"process", "none"} {
		t.Run(isolation, func(t *testing.T) {
			b := serveReady(t, t.TempDir(), "--set", "engine.isolation="+isolation)
			b.upload("stretched", "", stretched())
			pids := append(childrenOf(t, b.cmd.Process.Pid), b.cmd.Process.Pid)
			before := proportionalMemory(t, pids...)
			most := before
			for _, n := range []int{40e6, 45e6, 50e6} {
				body := fmt.Sprintf(`{"inputs":[{"name":"n","datatype":"INT64","shape":[1],"data":[%d]}],`+
					`"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`, n)
				res, err := http.Post(b.url+"/v2/models/stretched/infer", "application/json", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				read, err := io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err != nil || read < int64(4*n) {
					t.Fatalf("%d elements: %s, %d bytes, %v", n, res.Status, read, err)
				}
				most = max(most, proportionalMemory(t, pids...))
			}
			t.Logf("%d MiB before, at most %d MiB", before>>20, most>>20)
			await(t, "the end of what the answers took", func() bool { return proportionalMemory(t, pids...) < before+100<<20 })
			b.stop()
		})
	}
}

// TestARunThatTakesTooMuchMemoryIsRefused asks for outputs that grow, above what the models of a process may take, and for
// one for which there is room once what the others left behind is given back.
func TestARunThatTakesTooMuchMemoryIsRefused(t *testing.T) {
	for _, isolation := range []string{"process", "none"} {
		t.Run(isolation, func(t *testing.T) {
			b := serveReady(t, t.TempDir(), "--set", "engine.isolation="+isolation, "--set", "onnx.max_memory_bytes=300MiB")
			b.upload("stretched", "", stretched())
			pids := childrenOf(t, b.cmd.Process.Pid)
			for _, run := range []struct{ elements, status int }{
				{1, 200},
				{100e6, 507},
				{30e6, 200},
				{40e6, 200},
				{70e6, 200}, // more than is left beside both
				{80e6, 507},
				{1000, 200},
			} {
				body := fmt.Sprintf(`{"inputs":[{"name":"n","datatype":"INT64","shape":[1],"data":[%d]}],`+
					`"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`, run.elements)
				res, err := http.Post(b.url+"/v2/models/stretched/infer", "application/json", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				start, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
				rest, err := io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				switch {
				case err != nil || res.StatusCode != run.status:
					t.Errorf("%d elements: %s, %v, want %d: %.300s", run.elements, res.Status, err, run.status, start)
				case run.status == 200 && int(rest)+len(start) < 4*run.elements:
					t.Errorf("%d elements: %d bytes", run.elements, rest)
				case run.status != 200 && !strings.Contains(string(start), "onnx.max_memory_bytes"):
					t.Errorf("%d elements: %s", run.elements, start)
				}
			}
			if now := childrenOf(t, b.cmd.Process.Pid); !slices.Equal(now, pids) {
				t.Errorf("the processes %v have become %v", pids, now)
			}
			b.stop()
		})
	}
}

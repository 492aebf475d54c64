//go:build gpustub

package gpu

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/journal"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// driver makes a fake driver whose page stands beside it, so that processes of models see it too.
func driver(t *testing.T) (path string, control *fakegpu.Control) {
	t.Helper()
	t.Setenv("FAKEGPU_CONTROL", "") // of this process
	path = filepath.Join(t.TempDir(), "libcuda.so.1")
	place(t, fakegpu.Build(t, "libcuda"), path)
	control, err := fakegpu.Open(filepath.Join(filepath.Dir(path), "control"))
	if err != nil {
		t.Fatal(err)
	}
	return path, control
}

// repository writes models, each with its configuration.
func repository(t *testing.T, models map[string]string, of func(name string) *onnxgen.Model) string {
	t.Helper()
	dir := t.TempDir()
	for name, config := range models {
		version := filepath.Join(dir, name, "1")
		if err := os.MkdirAll(version, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "config.pbtxt"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := of(name).Save(version); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func start(t *testing.T, path, models string, ready ...string) (*box, *journal.Journal) {
	t.Helper()
	return startWith(t, path, models, nil, ready...)
}

func startWith(t *testing.T, path, models string, more []string, ready ...string) (*box, *journal.Journal) {
	t.Helper()
	log := &journal.Journal{}
	b, err := startBox(t.Context(), boxConfig{
		Program: filepath.Join(real.Root(t), "bin", "edgewise"), Library: prepare(t), Driver: path, Models: models,
		Data: t.TempDir(), Ready: ready, More: more, Log: log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	t.Cleanup(b.kill)
	return b, log
}

func question(t *testing.T, model string, rows int64) query {
	t.Helper()
	m := onnxgen.MLP(1)
	q, err := newQuery(model, edgewise.Tensor{
		Name: m.Graph.Inputs[0].Name, Type: edgewise.FP32,
		Shape: edgewise.Shape{rows, 64}, Data: make([]byte, rows*64*4),
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// metrics returns the page of metrics.
func (b *box) metrics() (string, error) {
	_, text, err := b.get("/metrics")
	return text, err
}

// post sends JSON and returns the answer. Error: *refused, or that of the connection.
func (b *box) post(path string, body []byte) ([]byte, error) {
	return b.send(path, body, map[string]string{"Content-Type": "application/json"})
}

// TestALostDeviceEndsItsProcessAndNothingElse runs the built program. The device of one model is lost: that request
// fails and says so, its process ends and comes back, and another model answers all the time. The same after kill -9.
func TestALostDeviceEndsItsProcessAndNothingElse(t *testing.T) {
	path, control := driver(t)
	models := repository(t, map[string]string{
		"onGPU": "max_batch_size: 8\ndynamic_batching {}\ninstance_group { kind: KIND_GPU }\n",
		"onCPU": "max_batch_size: 8\ninstance_group { kind: KIND_CPU }\n",
	}, func(string) *onnxgen.Model { return onnxgen.MLP(1) })
	b, log := start(t, path, models, "onGPU", "onCPU")
	hit, other := question(t, "onGPU", 3), question(t, "onCPU", 3)
	if err := errors.Join(b.infer(hit), b.infer(other)); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := b.infer(other); err != nil {
				t.Errorf("the other model: %v", err)
			}
			asked.Add(1)
		}
	}()
	refusal := func(err error) {
		var r *refused
		if !errors.As(err, &r) || r.Status != http.StatusServiceUnavailable || !strings.Contains(r.Text, "its process died") {
			t.Errorf("while it comes back: %v", err)
		}
	}
	before, err := b.children()
	if err != nil {
		t.Fatal(err)
	}

	control.Fail("cuEventSynchronize", 1, int32(cuda.IllegalAddress), true)
	began := time.Now()
	err = b.infer(hit)
	var r *refused
	if !errors.As(err, &r) || r.Status != http.StatusServiceUnavailable ||
		!strings.Contains(r.Text, "gpu:0 has stopped working and is started again") ||
		!strings.Contains(r.Text, "illegal address (CUDA error 700)") {
		t.Errorf("the request that meets it: %v", err)
	}
	took, err := b.awaitBack(hit, began, 12*back, refusal)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	t.Logf("after a lost device: %v", took)
	if took > back {
		t.Errorf("it came back after %v", took)
	}
	if !strings.Contains(log.String(), `cause="its device was lost"`) {
		t.Errorf("the log does not say why its process ended:\n%s", log)
	}

	after, err := b.children()
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, pid := range after { // the process that came back
		if !contains(before, pid) {
			killed++
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed != 1 {
		t.Fatalf("%d processes came back: %v, %v", killed, before, after)
	}
	took, err = b.awaitBack(hit, time.Now(), 12*back, func(error) {})
	if err != nil || took > back {
		t.Errorf("after kill -9: %v, %v", took, err)
	}
	t.Logf("after kill -9: %v", took)
	close(stop)
	<-stopped
	if asked.Load() == 0 {
		t.Error("the other model was not asked")
	}
	page, err := b.metrics()
	if err != nil || !strings.Contains(page, `edgewise_process_crashes_total{model="onGPU",version="1"} 2`) {
		t.Errorf("the deaths are not counted: %v", err)
	}
	if _, err := b.stop(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, log)
	}
}

func contains(list []int, n int) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}

// TestCtrlCEndsABoxWithAModelOnAGPU sends SIGINT to the whole group after a batch, as a terminal does.
func TestCtrlCEndsABoxWithAModelOnAGPU(t *testing.T) {
	path, _ := driver(t)
	models := repository(t, map[string]string{"onGPU": "max_batch_size: 8\ninstance_group { kind: KIND_GPU }\n"},
		func(string) *onnxgen.Model { return onnxgen.MLP(1) })
	b, log := start(t, path, models, "onGPU")
	if err := b.infer(question(t, "onGPU", 5)); err != nil {
		t.Fatal(err)
	}
	if took, err := b.stop(syscall.SIGINT); err != nil {
		t.Errorf("after %v: %v\n%s", took, err, log)
	}
}

// TestSeveralGPUs runs one model on two devices and another one where the box chooses, and a third one that names a
// device that is not there.
func TestSeveralGPUs(t *testing.T) {
	path, control := driver(t)
	control.Set(fakegpu.Devices, 2)
	control.Set(fakegpu.Memory, 8<<30)
	models := repository(t, map[string]string{
		"both":   "max_batch_size: 8\ninstance_group { kind: KIND_GPU }\n",
		"second": "max_batch_size: 8\ninstance_group { kind: KIND_GPU gpus: [1] }\n", "open": "max_batch_size: 8\n",
	}, func(string) *onnxgen.Model { return onnxgen.MLP(1) })
	b, log := startWith(t, path, models, []string{"gpu.trial_time=0s"}, "both", "second", "open")
	for _, model := range []string{"both", "second", "open"} {
		if answers, _, err := b.load(4, 50*time.Millisecond, question(t, model, 2)); err != nil || answers == 0 {
			t.Errorf("%s: %v\n%s", model, err, log)
		}
	}
	children, err := b.children()
	if err != nil || len(children) != 5 {
		t.Errorf("%d processes, want 2 for both, 1 for second and 2 for the open one: %v", len(children), err)
	}
	if _, err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestModelsOnDemandGiveWay lets two models share a device that has room for one: each answers, because the other one
// gives its memory up.
func TestModelsOnDemandGiveWay(t *testing.T) {
	path, _ := driver(t) // of 1 GiB, half of which is for models
	config := "max_batch_size: 8\ninstance_group { kind: KIND_GPU }\n"
	models := repository(t, map[string]string{"a": config, "b": config},
		func(string) *onnxgen.Model { return onnxgen.MLP(1) })
	b, log := start(t, path, models, "a", "b")
	for _, model := range []string{"a", "b", "a", "b"} {
		if err := b.infer(question(t, model, 2)); err != nil {
			t.Errorf("%s: %v\n%s", model, err, log)
		}
		if children, err := b.children(); err != nil || len(children) != 1 {
			t.Errorf("%d processes have memory of a device for one: %v", len(children), err)
		}
	}
	if n := strings.Count(log.String(), "a model gave its memory up for another"); n < 4 {
		t.Errorf("memory was given up %d times\n%s", n, log)
	}
	if _, err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestAThrottledGPUKeepsItsTimeForWhatMatters makes the device too hot: requests of the lowest priority are refused
// with the reason, others are not, and when it has cooled down all are answered.
func TestAThrottledGPUKeepsItsTimeForWhatMatters(t *testing.T) {
	path, _ := driver(t)
	told := filepath.Join(t.TempDir(), "nvml")
	tell := func(content string) {
		if err := os.WriteFile(told, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tell("utilization 10\nreasons 0x1\n") // idle is no throttling
	t.Setenv("FAKEGPU_NVML", told)
	models := repository(t, map[string]string{
		"m": "max_batch_size: 8\ndynamic_batching { priority_levels: 2 default_priority_level: 1 }\ninstance_group { kind: KIND_GPU }\n",
	}, func(string) *onnxgen.Model { return onnxgen.MLP(1) })
	b, log := startWith(t, path, models, []string{
		"gpu.telemetry=" + fakegpu.Build(t, "libnvidia-ml"),
		"gpu.telemetry_every=100ms",
	}, "m")
	ask := func(priority string) error {
		values := strings.TrimSuffix(strings.Repeat("0,", 64), ",")
		_, err := b.post("/v2/models/m/infer",
			[]byte(`{"parameters":{"priority":`+priority+`},"inputs":[{"name":"input","datatype":"FP32","shape":[1,64],"data":[`+values+`]}]}`))
		return err
	}
	if err := errors.Join(ask("1"), ask("2")); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	tell("utilization 10\nreasons 0x40\n")
	var r *refused
	for end := time.Now().Add(time.Minute); r == nil && time.Now().Before(end); {
		_ = errors.As(ask("2"), &r)
	}
	if r == nil || r.Status != http.StatusServiceUnavailable ||
		!strings.Contains(r.Text,
			"gpu:0 is throttled (hw_thermal_slowdown), and requests of the lowest priority, 2, are refused until it is not") {
		t.Errorf("the lowest priority: %+v", r)
	}
	if err := ask("1"); err != nil {
		t.Errorf("the other one: %v", err)
	}
	tell("utilization 10\nreasons 0x0\n")
	err := ask("2")
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
		err = ask("2")
	}
	if err != nil {
		t.Errorf("after it has cooled down: %v", err)
	}
	if _, err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

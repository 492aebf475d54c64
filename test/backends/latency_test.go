package backends

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/api/backend/conformance"
)

// BenchmarkPythonModel measures requests to a model that returns its input: all of the time is that of the protocol and
// of the copies. p50-us is the median.
func BenchmarkPythonModel(b *testing.B) {
	const configuration = `{"name": "echo", "max_batch_size": 0, "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
		"output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}]}`
	for _, size := range []int{256, 600_000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			c := connect(b, "echo", configuration)
			shape := edgewise.Shape{int64(size / 4)}
			x := edgewise.Tensor{Name: "IN", Type: edgewise.FP32, Shape: shape, Data: make([]byte, size)}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				infer(b, c, x)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-us")
		})
	}
}

// infer sends one request and copies the answer.
func infer(b *testing.B, c *backend.Client, x edgewise.Tensor) {
	answered := make(chan error, 1)
	call := &backend.Call{Tensors: []edgewise.Tensor{x}, Answer: func(r *backend.Response) {
		err := r.Error
		if err == nil && len(slices.Clone(r.Outputs[0].Data)) != len(x.Data) {
			err = fmt.Errorf("got %d bytes, want %d", len(r.Outputs[0].Data), len(x.Data))
		}
		r.Taken()
		answered <- err
	}}
	if err := c.Run(b.Context(), []*backend.Call{call}); err != nil {
		b.Fatal(err)
	}
	if err := <-answered; err != nil {
		b.Fatal(err)
	}
}

// silent leaves out what a backend tells.
type silent struct{}

func (silent) Exec(*backend.Exec, []edgewise.Tensor, func()) {}
func (silent) Drop(uint64)                                   {}
func (silent) Log(backend.Level, string)                     {}
func (silent) Metric(*backend.Metric)                        {}
func (silent) Control(uint64, *backend.Control)              {}
func (silent) Pong(uint64)                                   {}

// connect starts the backend of Python models with a model of its tests.
func connect(b *testing.B, name, configuration string) *backend.Client {
	folder, err := filepath.Abs("../../backends/python")
	must(b, err)
	c, files, err := backend.Connect(64<<20, 64<<20, silent{})
	must(b, err)
	// as in backend.yaml
	environment := []string{"MALLOC_MMAP_THRESHOLD_=33554432", "MALLOC_TRIM_THRESHOLD_=134217728"}
	process, err := conformance.Command(folder, []string{python, "-u", "serve.py"}, environment, os.Stderr)(files)
	must(b, err)
	for _, file := range files {
		must(b, file.Close())
	}
	go func() { c.End(c.Serve()) }()
	b.Cleanup(func() {
		process.Kill()
		<-process.Done()
		<-c.Ended()
	})
	model := filepath.Join(folder, "test/models", name)
	_, err = c.Start(context.Background(), &backend.Start{
		Model: name, Version: 1, Directory: filepath.Join(model, "1"), ModelDirectory: model,
		Configuration: []byte(configuration), Threads: 1, Log: "info",
		Instance: backend.StartInstance{Name: name + "_0_0", Kind: string(edgewise.KindCPU)},
	})
	must(b, err)
	return c
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

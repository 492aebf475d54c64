package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// scenario measures some lines of a table in a folder of its own. None takes longer than a minute or so.
type scenario struct {
	table string
	name  string
	steps func(*run)
}

// run is one run of a scenario. What fails ends it, as testing.T's Fatal does, so that a scenario reads as the list of
// what it does; what it has started ends with it.
type run struct {
	result
	dir    string // its own, on the disk of the checkout
	rounds int
	ends   []func()
	failed error
}

// measure runs a scenario.
func measure(s scenario, rounds int) (result, error) {
	if err := os.MkdirAll("dist", 0o755); err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp("dist", "bench-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &run{dir: dir, rounds: rounds}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer r.end()
		s.steps(r)
	}()
	<-ended
	return r.result, r.failed
}

// check ends the run unless err is nil. It belongs to the goroutine that measure has started.
func (r *run) check(err error) {
	if err != nil {
		r.failed = err
		runtime.Goexit()
	}
}

// later has something done when the run ends; the last one first.
func (r *run) later(end func()) { r.ends = append(r.ends, end) }

func (r *run) end() {
	for _, end := range slices.Backward(r.ends) {
		end()
	}
}

// report adds figures to the result.
func (r *run) report(figures ...figure) { r.Figures = append(r.Figures, figures...) }

// save writes a model into the run's folder.
func (r *run) save(m *onnxgen.Model) (path string) {
	path = filepath.Join(r.dir, "model.onnx")
	r.check(os.WriteFile(path, m.Bytes(), 0o644))
	return path
}

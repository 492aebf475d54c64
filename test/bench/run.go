package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

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
	options
	dir    string // its own, on the disk of the checkout
	ends   []func()
	failed error
}

// options are the same for all scenarios.
type options struct {
	rounds   int           // of every interleaved measurement
	requests int           // of a workload of the table fits
	within   time.Duration // for which they are sent; 0: until all were
	repeats  int           // tunings of each subject and objective
	limit    time.Duration // of one of them
	busy     bool          // samples count without two real cores, too
	out      string        // folder of the tables; empty: they are only printed
	peer     string        // another server of the v2 protocol, host:port; empty: none
	peerGRPC string        // the same over gRPC
}

// measure runs a scenario.
func measure(s scenario, o options) (result, error) {
	dist, err := filepath.Abs("dist") // the children of a box do not run in its folder
	if err != nil {
		return result{}, err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp(dist, "bench-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &run{options: o, dir: dir}
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

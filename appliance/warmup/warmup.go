// Package warmup makes the requests that models declare as their warm-up.
package warmup

import (
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
	"github.com/edgewise-ai/edgewise/store"
)

// Bounds of warm-up requests.
const (
	maxBytes       = 1 << 30  // of one input
	maxSamples     = 8        // that a model is measured with
	maxSampleBytes = 16 << 20 // of the inputs of one of them, the whole batch
)

// Requests makes the requests that a model declares as its warm-up, each as often as it says. dir has the files of the
// version: data files stand in its folder "warmup". Errors: Invalid.
func Requests(m *edgewise.Model, dir string) ([]*edgewise.Request, error) {
	var requests []*edgewise.Request
	for _, w := range m.ModelWarmup {
		req, err := request(m, w, dir)
		if err != nil {
			return nil, err
		}
		requests = append(requests, slices.Repeat([]*edgewise.Request{req}, max(int(w.Count), 1))...)
	}
	return requests, nil
}

// Samples makes requests to measure a model with: the first row of each warm-up, at most 8, without those of more than
// 16 MiB. Floating-point numbers that no file gives are random, since answers to zeros are often the same whatever
// computes them. Errors: those of Requests.
func Samples(m *edgewise.Model, dir string) ([]*edgewise.Request, error) {
	var samples []*edgewise.Request
	for _, w := range m.ModelWarmup {
		if size(w) > maxSampleBytes || len(samples) == maxSamples {
			continue
		}
		w.Inputs = maps.Clone(w.Inputs)
		for name, in := range w.Inputs {
			if in.ZeroData && in.DataType.IsFloat() {
				in.ZeroData, in.RandomData = false, true
				w.Inputs[name] = in
			}
		}
		req, err := request(m, w, dir)
		if err == nil && m.MaxBatchSize > 0 {
			err = cut(req, max(int(w.BatchSize), 1))
		}
		if err != nil {
			return nil, err
		}
		samples = append(samples, req)
	}
	return samples, nil
}

// size is the bytes of a warm-up's inputs, with four for each string; math.MaxInt64 where they overflow.
func size(w edgewise.ModelWarmup) (sum int64) {
	for _, in := range w.Inputs {
		element := in.DataType.Size()
		if in.DataType == edgewise.Bytes {
			element = 4
		}
		n, ok := append(edgewise.Shape{max(int64(w.BatchSize), 1), element}, in.Dims...).Elements()
		if !ok || n > maxBytes {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}

// cut leaves the first row of a request of so many.
func cut(req *edgewise.Request, rows int) error {
	if rows == 1 {
		return nil
	}
	parts, err := sched.Split(req.Inputs, 2, rows, func(k int) int { return 1 + k*(rows-2) })
	if err != nil {
		return edgewise.Errorf("warmup.cut", edgewise.Invalid, "model %q: warm-up %q: %w", req.Model.Name, req.ID, err)
	}
	req.Inputs = parts.Of(0)
	return nil
}

func request(m *edgewise.Model, w edgewise.ModelWarmup, dir string) (*edgewise.Request, error) {
	req := &edgewise.Request{ID: w.Name, Model: edgewise.ModelID{Name: m.Name}}
	for name, in := range w.Inputs {
		t, err := tensor(name, in, m.MaxBatchSize > 0, int64(w.BatchSize), dir)
		if err != nil {
			return nil, edgewise.Errorf("warmup.request", edgewise.Invalid,
				"model %q: warm-up %q: input %q: %w", m.Name, w.Name, name, err)
		}
		req.Inputs = append(req.Inputs, t)
	}
	return req, nil
}

func tensor(name string, in edgewise.WarmupInput, batched bool, batch int64, dir string) (edgewise.Tensor, error) {
	shape := in.Dims
	if batched {
		shape = append(edgewise.Shape{max(batch, 1)}, in.Dims...)
	}
	fill := trial.Zeros
	switch {
	case in.InputDataFile != "":
		fill = func(edgewise.DataType, int64) ([]byte, error) { return file(dir, in.InputDataFile) }
	case in.RandomData: // the same at every load
		fill = trial.Random(rand.New(rand.NewPCG(1, 2)), trial.Range{High: 1, Integers: math.MaxInt64})
	}
	return trial.Tensor(name, in.DataType, shape, maxBytes, fill)
}

func file(dir, name string) ([]byte, error) {
	if err := edgewise.CheckPath(name); err != nil {
		return nil, err
	}
	return store.ReadBounded(filepath.Join(dir, modelconfig.WarmupFolder, filepath.FromSlash(name)), maxBytes)
}

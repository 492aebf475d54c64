package serving

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
	"github.com/edgewise-ai/edgewise/store"
)

// maxWarmupBytes bounds the bytes of one warm-up input.
const maxWarmupBytes = 1 << 30

// warmupRequests makes the requests that a model declares as its warm-up. Data files stand in the version's folder
// "warmup".
func warmupRequests(m *edgewise.Model, dir string) ([]*edgewise.Request, error) {
	var requests []*edgewise.Request
	for _, w := range m.ModelWarmup {
		req := &edgewise.Request{ID: w.Name, Model: edgewise.ModelID{Name: m.Name}}
		for name, in := range w.Inputs {
			t, err := warmupTensor(name, in, m.MaxBatchSize > 0, int64(w.BatchSize), dir)
			if err != nil {
				return nil, edgewise.Errorf("serving.warmup", edgewise.Invalid,
					"model %q: warm-up %q: input %q: %w", m.Name, w.Name, name, err)
			}
			req.Inputs = append(req.Inputs, t)
		}
		requests = append(requests, slices.Repeat([]*edgewise.Request{req}, max(int(w.Count), 1))...)
	}
	return requests, nil
}

func warmupTensor(
	name string, in edgewise.WarmupInput, batched bool, batch int64, dir string,
) (edgewise.Tensor, error) {
	shape := in.Dims
	if batched {
		shape = append(edgewise.Shape{max(batch, 1)}, in.Dims...)
	}
	fill := trial.Zeros
	switch {
	case in.InputDataFile != "":
		fill = func(edgewise.DataType, int64) ([]byte, error) { return warmupFile(dir, in.InputDataFile) }
	case in.RandomData: // the same at every load
		fill = trial.Random(rand.New(rand.NewPCG(1, 2)), trial.Range{High: 1, Integers: math.MaxInt64})
	}
	return trial.Tensor(name, in.DataType, shape, maxWarmupBytes, fill)
}

func warmupFile(dir, name string) ([]byte, error) {
	if err := edgewise.CheckPath(name); err != nil {
		return nil, err
	}
	return store.ReadBounded(filepath.Join(dir, "warmup", filepath.FromSlash(name)), maxWarmupBytes)
}

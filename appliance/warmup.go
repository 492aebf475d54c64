package appliance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/edgewise-ai/edgewise"
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
				return nil, edgewise.Errorf("appliance.warmup", edgewise.Invalid, "model %q: warm-up %q: input %q: %w", m.Name, w.Name, name, err)
			}
			req.Inputs = append(req.Inputs, t)
		}
		requests = append(requests, slices.Repeat([]*edgewise.Request{req}, max(int(w.Count), 1))...)
	}
	return requests, nil
}

func warmupTensor(name string, in edgewise.WarmupInput, batched bool, batch int64, dir string) (edgewise.Tensor, error) {
	t := edgewise.Tensor{Name: name, Type: in.DataType, Shape: in.Dims}
	if batched {
		t.Shape = append(edgewise.Shape{max(batch, 1)}, in.Dims...)
	}
	elements, ok := t.Shape.Elements()
	if !ok || elements > maxWarmupBytes/max(t.Type.Size(), 4) {
		return t, fmt.Errorf("shape %v has a negative size or takes more than %d bytes", t.Shape, maxWarmupBytes)
	}
	var err error
	switch {
	case in.InputDataFile != "":
		t.Data, err = warmupFile(dir, in.InputDataFile)
	case in.RandomData:
		t.Data = randomData(t.Type, elements)
	default:
		t.Data = zeroData(t.Type, elements)
	}
	return t, err
}

func warmupFile(dir, name string) ([]byte, error) {
	if err := edgewise.CheckPath(name); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "warmup", filepath.FromSlash(name))
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxWarmupBytes {
		return nil, fmt.Errorf("file %q has %d bytes, at most %d are allowed", name, info.Size(), maxWarmupBytes)
	}
	return os.ReadFile(path)
}

// zeroData is zeros, or empty strings.
func zeroData(t edgewise.DataType, elements int64) []byte {
	if t == edgewise.Bytes {
		return make([]byte, 4*elements)
	}
	return make([]byte, elements*t.Size())
}

// randomData is the same at every load. Floating-point bytes are small numbers; a random pattern could be NaN.
func randomData(t edgewise.DataType, elements int64) []byte {
	data := zeroData(t, elements)
	r := rand.New(rand.NewPCG(1, 2))
	switch t {
	case edgewise.Bytes:
	case edgewise.Bool:
		for i := range data {
			data[i] = byte(r.IntN(2))
		}
	case edgewise.FP16, edgewise.FP32, edgewise.FP64, edgewise.BF16:
		for i := range data {
			data[i] = byte(r.IntN(0x40)) // no sign, no exponent of NaN or infinity
		}
	default:
		for i := range data {
			data[i] = byte(r.IntN(256))
		}
	}
	return data
}

package roofline

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/gpu/onnx/work"
	"github.com/edgewise-ai/edgewise/scalar"
)

// Bounds of counting the work of versions.
const (
	maxCounted  = 256      // versions whose work is kept
	sampleBytes = 16 << 20 // of a request that is made up
	openSize    = 32       // of its open dimensions
	largeTensor = 1 << 20  // bytes: intermediate tensors above are counted as moved
	maxValues   = 64       // numbers of an input that are looked at
)

// Models are the stored and loaded versions.
type Models struct {
	Version    func(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error)
	Dir        func(id edgewise.ModelID) (string, error)
	Statistics func(id edgewise.ModelID) (edgewise.Statistics, error)
	// File reads an ONNX model to count its work. Error: Unsupported for other models.
	File func(dir string, m *edgewise.Model) (*onnxfile.File, error)
	// Samples returns requests to a model that are known.
	Samples func(model string) (load.Samples, error)
	// Latest returns the inputs of the latest request of a client to a version that is still known; nil when there is none.
	Latest func(id edgewise.ModelID) []admin.Tensor
	// Device names the device that a version was measured to run best on, "" when it has no choice.
	Device func(id edgewise.ModelID) string
}

// Insight says what bounds versions. It is safe for concurrent use.
type Insight struct {
	*Meter
	models Models

	mu      sync.Mutex // guards what follows
	counted map[edgewise.ModelID]*counted
}

// counted is the work of a run of one row.
type counted struct {
	key     string // of the inputs
	work    admin.RunWork
	weights float64
}

// NewInsight makes an Insight.
func NewInsight(m *Meter, models Models) *Insight {
	return &Insight{Meter: m, models: models, counted: map[edgewise.ModelID]*counted{}}
}

// Bound says what bounds a ready version. Errors: NotFound, Unavailable when it is not ready; those of the file.
func (i *Insight) Bound(ctx context.Context, id edgewise.ModelID) (*admin.Bound, error) {
	v, _, err := i.models.Version(id)
	if err != nil {
		return nil, err
	}
	s := Snapshot{Roofline: i.valid(), Elsewhere: strings.TrimPrefix(i.models.Device(id), "cpu")}
	if s.Statistics, err = i.models.Statistics(id); err != nil {
		return nil, err
	}
	c := v.Model.Concurrency(i.config.Cores)
	s.Threads, s.Solo = c.Threads(), c.Solo
	done, err := i.count(ctx, v)
	switch {
	case err == nil:
		s.Work, s.Weights = &done.work, done.weights
	case edgewise.KindOf(err) != edgewise.Unsupported:
		return nil, err
	}
	return Decide(s), nil
}

// count counts the work of a run of one row of a version, once for the shapes of its inputs.
func (i *Insight) count(ctx context.Context, v *edgewise.Version) (*counted, error) {
	samples, err := i.models.Samples(v.ID.Name)
	if err != nil {
		return nil, err
	}
	inputs, origin := inputsOf(v, samples)
	if latest := i.models.Latest(v.ID); latest != nil {
		inputs, origin = latestOf(inputs, latest), "clients"
	}
	key := keyOf(inputs) + origin
	i.mu.Lock()
	known := i.counted[v.ID]
	i.mu.Unlock()
	if known != nil && known.key == key {
		return known, nil
	}
	dir, err := i.models.Dir(v.ID)
	if err != nil {
		return nil, err
	}
	f, err := i.models.File(dir, v.Model)
	if err != nil {
		return nil, err
	}
	w, err := work.Of(ctx, f, inputs, largeTensor)
	if err != nil {
		return nil, err
	}
	n := rowsOf(v.Model, inputs)
	done := &counted{key: key, weights: float64(w.Weights), work: admin.RunWork{
		Operations: w.Operations / n, Integer: w.Integer / n, Nodes: w.Nodes, Inputs: origin, Unknown: w.Unknown,
		Bytes: float64(w.Weights) + float64(w.Bytes()-w.Weights)/n, Set: float64(w.Weights) + float64(w.Set()-w.Weights)/n,
	}}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.counted) >= maxCounted {
		clear(i.counted)
	}
	i.counted[v.ID] = done
	return done, nil
}

// rowsOf is how many rows a request has.
func rowsOf(m *edgewise.Model, inputs map[string]work.Input) float64 {
	rows := int64(1)
	for _, in := range inputs {
		if m.MaxBatchSize > 0 && len(in.Shape) > 0 {
			rows = max(rows, in.Shape[0])
		}
	}
	return float64(rows)
}

// latestOf are the inputs of a client's latest request, of which the shapes are known, with the numbers of a sample where
// the shapes are the same.
func latestOf(sample map[string]work.Input, latest []admin.Tensor) map[string]work.Input {
	list := maps.Clone(sample)
	for _, t := range latest {
		if in := list[t.Name]; !slices.Equal(in.Shape, t.Shape) {
			list[t.Name] = work.Input{Shape: t.Shape}
		}
	}
	return list
}

// keyOf tells inputs of other shapes apart.
func keyOf(inputs map[string]work.Input) string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		fmt.Fprint(&key, name, inputs[name].Shape, inputs[name].Values)
	}
	return key.String()
}

// inputsOf are the inputs of a sample, or of a request that is made up.
func inputsOf(v *edgewise.Version, samples load.Samples) (map[string]work.Input, string) {
	var tensors []edgewise.Tensor
	origin := samples.Origin
	if len(samples.Requests) > 0 {
		tensors = samples.Requests[0].Inputs
	} else {
		origin = admin.FromSignature
		fill := trial.Random(rand.New(rand.NewPCG(1, 2)), trial.Range{Low: -1, High: 1, Integers: 2})
		tensors, _ = trial.Inputs(v.Model, trial.Size{Rows: 1, Open: openSize, Bytes: sampleBytes}, fill)
	}
	list := map[string]work.Input{}
	for _, t := range tensors {
		in := work.Input{Shape: t.Shape}
		if n, ok := t.Shape.Elements(); ok && n <= maxValues && (t.Type == edgewise.Int64 || t.Type == edgewise.Int32) {
			size := int(t.Type.Size())
			in.Values = []float64{}
			for at := 0; at+size <= len(t.Data); at += size {
				in.Values = append(in.Values, scalar.Float(t.Type, t.Data[at:]))
			}
		}
		list[t.Name] = in
	}
	return list, origin
}

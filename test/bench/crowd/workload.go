package crowd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"

	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// Workload is requests to models that do not fit into memory together: how often each is asked follows Zipf's law, and
// what each takes does not depend on that.
type Workload struct {
	sizes []int64 // of the models, in bytes
	Asked []int   // the model of each request
}

const (
	// Models is how many there are.
	Models      = 40
	leastBytes  = 50 << 20
	mostBytes   = 400 << 20
	fitSeed     = 26
	modelPrefix = "m"
)

// NewWorkload makes one; the skew is the exponent of Zipf's law. Each size is divided by scale.
func NewWorkload(skew float64, requests int, scale int64) *Workload {
	w := &Workload{sizes: make([]int64, Models), Asked: make([]int, requests)}
	rng, sum := rand.New(rand.NewPCG(fitSeed, 0)), 0.0
	weights := make([]float64, Models)
	for i := range w.sizes {
		w.sizes[i] = (leastBytes + rng.Int64N(mostBytes-leastBytes)) / scale
		sum += math.Pow(float64(i+1), -skew)
		weights[i] = sum
	}
	for i := range w.Asked {
		w.Asked[i] = sort.SearchFloat64s(weights, rng.Float64()*sum)
	}
	return w
}

// model makes a model of the workload.
func (w *Workload) model(i int) *onnxgen.Model { return onnxgen.Tables(w.sizes[i], uint64(i)) }

// ModelName is what a model of a workload is called.
func ModelName(i int) string { return fmt.Sprint(modelPrefix, i) }

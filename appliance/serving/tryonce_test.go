package serving

import (
	"context"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// trying answers what takes says.
type trying func(in []edgewise.Tensor) error

func (f trying) verify(_ context.Context, req *edgewise.Request) error { return f(req.Inputs) }

func TestAVersionIsRunOnceBeforeItGoesLive(t *testing.T) {
	model := func(kind edgewise.DataType, dims ...int64) *edgewise.Model {
		return &edgewise.Model{Name: "m", Input: []edgewise.ModelInput{{Name: "x", DataType: kind, Dims: dims}}}
	}
	batched, warm := model(edgewise.FP32, 4), model(edgewise.FP32, 4)
	batched.MaxBatchSize, warm.ModelWarmup = 8, []edgewise.ModelWarmup{{Name: "own"}}
	fails := func(kind edgewise.Kind) trying {
		return func([]edgewise.Tensor) error { return edgewise.Errorf("test", kind, "no") }
	}
	for _, test := range []struct {
		name       string
		model      *edgewise.Model
		run        trying
		unverified string
		refused    bool
	}{
		{"it works", model(edgewise.FP32, 2, 3), func(in []edgewise.Tensor) error { return in[0].Check() }, "", false},
		{"it works in batches", batched, func(in []edgewise.Tensor) error { return in[0].Check() }, "", false},
		{"it fails with numbers of fixed shape", model(edgewise.FP32, 2, 3), fails(edgewise.Internal), "", true},
		{"it ends its process", model(edgewise.FP16, 2), fails(edgewise.Unavailable), "", true},
		{"its batch may be a length", batched, fails(edgewise.Internal), "a run with ones failed: no", false},
		{"it refuses the numbers", model(edgewise.FP32, 2), fails(edgewise.Invalid), "a run with ones failed: no", false},
		{"it takes indexes", model(edgewise.Int64, 2), fails(edgewise.Internal), "a run with ones failed: no", false},
		{
			"its sizes have to be guessed", model(edgewise.FP32, -1, 3), fails(edgewise.Internal), "a run with ones failed: no",
			false,
		},
		{"one of the sizes fits", model(edgewise.FP32, -1), func(in []edgewise.Tensor) error {
			if in[0].Shape[0] != 32 {
				return edgewise.Errorf("test", edgewise.Internal, "no")
			}
			return nil
		}, "", false},
		{"it has no time", model(edgewise.FP32, 2), fails(edgewise.Deadline), "a run with ones failed: no", false},
		{
			"it takes text", model(edgewise.Bytes, 1), fails(edgewise.Internal),
			`no request can be made: input "x": text and files cannot be made up`, false,
		},
		{"it takes too much", model(edgewise.FP32, 1<<40), fails(edgewise.Internal), `no request can be made: input ` +
			`"x": shape [1099511627776] has a negative size or takes more than 33554432 bytes`, false},
		{"it declares a warm-up", warm, fails(edgewise.Internal), "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			unverified, err := tryOnce(t.Context(), test.model, edgewise.Format{}, test.run.verify)
			if (err != nil) != test.refused || err == nil && unverified != test.unverified {
				t.Errorf("got %q, %v", unverified, err)
			}
			if err != nil && edgewise.KindOf(err) != edgewise.Invalid || err != nil &&
				!strings.Contains(err.Error(), `model "m" does not work: it computes nothing of its declared signature: no`) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAStepIsVerifiedWhenItAnswersOrRefuses(t *testing.T) {
	m := &edgewise.Model{Name: "m", Input: []edgewise.ModelInput{
		{Name: "file", DataType: edgewise.Bytes, Dims: edgewise.Shape{2}}, {
			Name: "x", DataType: edgewise.FP32,
			Dims: edgewise.Shape{2},
		},
	}}
	for _, test := range []struct {
		name       string
		fails      error
		unverified string
	}{
		{"it answers", nil, ""},
		{"it refuses the inputs", edgewise.Errorf("test", edgewise.Guest, "model m: %w",
			&edgewise.StepRefusal{Text: "no picture"}), ""},
		{
			"it traps", edgewise.Errorf("test", edgewise.Guest, "trap: unreachable"),
			"a run with ones failed: trap: unreachable",
		},
		{"it has no time", edgewise.Errorf("test", edgewise.Deadline, "stopped"), "a run with ones failed: stopped"},
		{"its inputs are too large", edgewise.Errorf("test", edgewise.TooLarge, "no"), "a run with ones failed: no"},
	} {
		t.Run(test.name, func(t *testing.T) {
			verify := func(ctx context.Context, req *edgewise.Request) error {
				if !req.Trial {
					t.Error("the run does not say that its inputs are made up")
				}
				for _, in := range req.Inputs {
					if err := in.Check(); err != nil {
						t.Error(err)
					}
				}
				return test.fails
			}
			unverified, err := tryOnce(t.Context(), m, edgewise.Format{Guest: true}, verify)
			if err != nil || unverified != test.unverified {
				t.Errorf("got %q, %v, want %q", unverified, err, test.unverified)
			}
		})
	}
}

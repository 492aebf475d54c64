package serving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

// Bounds of the run that shows that a version works.
const (
	verifyTime  = 10 * time.Second // for all attempts
	guestTime   = 2 * time.Second  // the same, of a step
	verifyBytes = 32 << 20         // of one input
)

// verifySizes are tried in turn for dimensions of variable size, until the model takes one.
var verifySizes = []int64{1, 8, 32}

// tryOnce runs a version that declares no warm-up once with tensors of its declared signature. unverified says why no
// run has shown that it works, "" when one has. The error is the model's own: it has no other inputs than
// floating-point numbers of fixed shape, computes none of those that were tried, and so will compute nothing.
// Whatever else a run ends with may be about inputs that had to be guessed: an index, a length, a text, two sizes
// that belong together. A step that refuses the inputs in its own words works: it has read them and answered.
func tryOnce(
	ctx context.Context, m *edgewise.Model, f edgewise.Format, verify func(context.Context, *edgewise.Request) error,
) (unverified string, err error) {
	if len(m.ModelWarmup) > 0 {
		return "", nil
	}
	if f.Untried {
		return "its backend runs no requests that are made up", nil
	}
	limit := verifyTime
	if f.Guest {
		limit = guestTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sizes := verifySizes
	if !guessed(m) {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		for _, value := range []float64{1, 0.5} { // not 0: a model that divides integers by it would end its process
			req, made := requestOf(m, f, size, value)
			if made != nil {
				return fmt.Sprintf("no request can be made: %v", made), nil
			}
			if err = verify(ctx, req); err == nil || f.Guest && refusedByStep(err) {
				return "", nil
			}
		}
	}
	reason := fmt.Sprintf("a run with ones failed: %v", err)
	if ownFault(m, err) {
		return reason, edgewise.Errorf("serving.tryOnce", edgewise.Invalid,
			"model %q does not work: it computes nothing of its declared signature: %w", m.Name, err)
	}
	return reason, nil
}

// guessed tells whether a required input has a dimension of variable size. A batch is one: what looks like it may be
// a length of which the model wants some.
func guessed(m *edgewise.Model) bool {
	return slices.ContainsFunc(m.Inputs(), func(in edgewise.Spec) bool {
		return !in.Optional && (m.MaxBatchSize > 0 || slices.Contains(in.Shape, -1))
	})
}

// ownFault tells whether an error cannot be about the inputs that were tried.
func ownFault(m *edgewise.Model, err error) bool {
	switch edgewise.KindOf(err) {
	case edgewise.Internal, edgewise.Corrupt, edgewise.Unavailable: // a process that a run has ended is unavailable
	default:
		return false
	}
	return !guessed(m) && !slices.ContainsFunc(m.Inputs(), func(in edgewise.Spec) bool { return !in.Type.IsFloat() })
}

// refusedByStep tells whether a step has refused its inputs in its own words.
func refusedByStep(err error) bool {
	_, own := errors.AsType[*edgewise.StepRefusal](err)
	return own
}

// requestOf makes a request of the required inputs of a model, all of one value, and of one size where the size is
// open. Only steps get text: native code may fail in any way on text that means nothing.
func requestOf(m *edgewise.Model, f edgewise.Format, open int64, value float64) (*edgewise.Request, error) {
	size := trial.Size{Rows: min(open, int64(m.MaxBatchSize)), Open: open, Bytes: verifyBytes}
	fill := trial.Same(value)
	if f.Guest {
		numbers := fill
		fill = func(t edgewise.DataType, n int64) ([]byte, error) {
			if t == edgewise.Bytes {
				return bytes.Repeat(edgewise.AppendElement(nil, "1"), int(n)), nil
			}
			return numbers(t, n)
		}
	}
	inputs, err := trial.Inputs(m, size, fill)
	if err != nil {
		return nil, err
	}
	return &edgewise.Request{ID: "verification", Trial: true, Model: edgewise.ModelID{Name: m.Name}, Inputs: inputs}, nil
}

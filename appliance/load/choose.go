package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

// Bounds of the samples that a model is measured with.
const (
	maxSamples  = 8
	sampleBytes = 16 << 20         // of the inputs of all
	sampleTime  = 20 * time.Second // of one request to an idle model
)

// sizes are tried in turn for dimensions of variable size, until the model takes one.
func sizes() []int64 { return []int64{32, 8, 1} }

// Choose returns the requests that a model is measured with: those of given that it answers, at most 8 with inputs of at most
// 16 MiB together, or else one that is made up of its signature, which generated says. ask sends a request and returns whether
// it is answered; the requests of given become ones to id. Errors: ctx's cause; one that says what a made up request ended with.
func Choose(
	ctx context.Context, m *edgewise.Model, id edgewise.ModelID, given []*edgewise.Request,
	ask func(context.Context, *edgewise.Request) error,
) (samples []*edgewise.Request, generated bool, err error) {
	answers := func(r *edgewise.Request) error {
		limited, cancel := context.WithTimeout(ctx, sampleTime)
		defer cancel()
		err := ask(limited, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	left := sampleBytes
	for _, r := range given {
		r.Model, r.Sequence = id, edgewise.Sequence{}
		if left -= sizeOf(r); left < 0 || len(samples) >= maxSamples {
			break
		}
		if answers(r) == nil {
			samples = append(samples, r)
		}
	}
	if len(samples) > 0 || ctx.Err() != nil {
		return samples, false, context.Cause(ctx)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, open := range sizes() {
		fill := trial.Random(random, trial.Range{Low: -1, High: 1, Integers: 2})
		inputs, made := trial.Inputs(m, trial.Size{Rows: 1, Open: open, Bytes: sampleBytes}, fill)
		if made != nil {
			err = fmt.Errorf("no request can be made up: %w", made)
			continue
		}
		r := &edgewise.Request{Model: id, Inputs: inputs, Trial: true}
		if err = answers(r); err == nil {
			return []*edgewise.Request{r}, true, nil
		}
		if ctx.Err() != nil {
			return nil, true, err
		}
		err = fmt.Errorf("it takes no made up request: %w", err)
	}
	return nil, true, err
}

// sizeOf is the bytes of a request's inputs.
func sizeOf(r *edgewise.Request) (n int) {
	for i := range r.Inputs {
		n += len(r.Inputs[i].Data)
	}
	return cmp.Or(n, 1)
}

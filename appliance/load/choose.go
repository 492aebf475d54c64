package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

// Known finds requests to models that clients have sent, or that the authors of models have given.
type Known struct {
	// Goldens returns the requests of a model's goldens, and how answers to them are compared.
	Goldens func(model string) ([]*edgewise.Request, []admin.CompareRule, error)
	// Recorded returns the latest requests that were recorded of a model, at most so many.
	Recorded func(model string, most int) []*edgewise.Request
	// Warmups makes requests of those that a version declares as its warm-up.
	Warmups func(m *edgewise.Model, id edgewise.ModelID) ([]*edgewise.Request, error)
}

// Samples are the requests that a model is measured with.
type Samples struct {
	Requests []*edgewise.Request
	Rules    []admin.CompareRule // how answers to them are compared
	Origin   string              // admin.FromGoldens and the others
}

// Bounds of the samples that a model is measured with.
const (
	maxSamples  = 8
	sampleBytes = 16 << 20         // of the inputs of all
	sampleTime  = 20 * time.Second // of one request to an idle model
)

// sizes are tried in turn for dimensions of variable size, until the model takes one.
func sizes() []int64 { return []int64{32, 8, 1} }

// Of returns the goldens of a model, or requests that were recorded of it, which may be none. Errors: those of Goldens.
func (k Known) Of(model string) (Samples, error) {
	goldens, rules, err := k.Goldens(model)
	if err != nil || len(goldens) > 0 {
		return Samples{goldens, rules, admin.FromGoldens}, err
	}
	return Samples{k.Recorded(model, maxSamples), rules, admin.FromRecorded}, nil
}

// Choose returns requests that a version answers: those of Of, at most 8 with inputs of at most 16 MiB together; or
// else one that is made up of its signature; or else those of its warm-up. ask sends a request, which is one to id, and
// returns whether it is answered. Errors: ctx's cause; those of Goldens and Warmups; Unsupported, which says what a made
// up request ended with.
func (k Known) Choose(
	ctx context.Context, m *edgewise.Model, id edgewise.ModelID, ask func(context.Context, *edgewise.Request) error,
) (Samples, error) {
	c := chooser{m, id, ask}
	s, err := k.Of(id.Name)
	if err != nil {
		return Samples{}, err
	}
	if s.Requests = c.answered(ctx, s.Requests); len(s.Requests) > 0 || ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	made, refused := c.made(ctx)
	if s.Origin = admin.FromSignature; refused == nil || ctx.Err() != nil {
		s.Requests = []*edgewise.Request{made}
		return s, context.Cause(ctx)
	}
	warmups, err := k.Warmups(m, id)
	if err != nil {
		return Samples{}, err
	}
	s.Origin = admin.FromWarmup
	if s.Requests = c.answered(ctx, warmups); len(s.Requests) > 0 || ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	return Samples{}, edgewise.Errorf("load.Choose", edgewise.Unsupported, "%w; add a golden or a model_warmup", refused)
}

// chooser tries requests.
type chooser struct {
	model *edgewise.Model
	id    edgewise.ModelID
	send  func(context.Context, *edgewise.Request) error
}

// ask returns whether the model answers a request, within 20 s.
func (c chooser) ask(ctx context.Context, r *edgewise.Request) error {
	limited, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	return c.send(limited, r)
}

// answered returns the requests that the model answers, within the bounds.
func (c chooser) answered(ctx context.Context, given []*edgewise.Request) (samples []*edgewise.Request) {
	left := sampleBytes
	for _, r := range given {
		r.Model, r.Sequence = c.id, edgewise.Sequence{}
		if left -= sizeOf(r); left < 0 || len(samples) >= maxSamples || ctx.Err() != nil {
			break
		}
		if c.ask(ctx, r) == nil {
			samples = append(samples, r)
		}
	}
	return samples
}

// made makes up a request that the model answers.
func (c chooser) made(ctx context.Context) (r *edgewise.Request, err error) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, open := range sizes() {
		fill := trial.Random(random, trial.Range{Low: -1, High: 1, Integers: 2})
		inputs, unmade := trial.Inputs(c.model, trial.Size{Rows: 1, Open: open, Bytes: sampleBytes}, fill)
		if unmade != nil {
			err = fmt.Errorf("no request can be made up: %w", unmade)
			continue
		}
		r = &edgewise.Request{Model: c.id, Inputs: inputs, Trial: true}
		if err = c.ask(ctx, r); err == nil || ctx.Err() != nil {
			return r, err
		}
		err = fmt.Errorf("it takes no made up request: %w", err)
	}
	return nil, err
}

// sizeOf is the bytes of a request's inputs.
func sizeOf(r *edgewise.Request) (n int) {
	for i := range r.Inputs {
		n += len(r.Inputs[i].Data)
	}
	return cmp.Or(n, 1)
}

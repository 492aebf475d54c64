package tune

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/loopback"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// ensembleCallers bounds the requests in progress while an ensemble is saturated: its steps may ask many times for each.
const ensembleCallers = 32

// loaded is a part that is loaded beside what serves.
type loaded struct {
	text    string // its configuration
	version *edgewise.Version
	beside  *manager.Beside
}

// candidate is a candidate of which all parts are loaded.
type candidate struct {
	model     loopback.Model     // answers its requests
	ensemble  *ensemble.Ensemble // nil: a model
	parts     []*loaded
	rows      int // of the largest batch
	sequences bool
}

// Infer answers for the part that a step asks.
func (c *candidate) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	for _, p := range c.parts {
		if p.version.ID == req.Model {
			return p.beside.Infer(ctx, req)
		}
	}
	return nil, edgewise.Errorf("tune.Infer", edgewise.Internal, "no part of the candidate is %v", req.Model)
}

// independent tells whether the rows of a part's batches do not depend on each other.
func (c *candidate) independent(id edgewise.ModelID) bool {
	for _, p := range c.parts {
		if p.version.ID == id {
			b := p.beside.Statistics().Batching
			return b != nil && b.Independent
		}
	}
	return false
}

// load loads the parts of a candidate. Those that the candidate before had, too, are still loaded.
func (b *bench) load(ctx context.Context, of search.Candidate) (*candidate, error) {
	texts := make([]string, len(b.plan.parts))
	for i, p := range b.plan.parts {
		text, _, err := p.configuration(of)
		if err != nil {
			return nil, excluded(err)
		}
		texts[i] = string(text)
	}
	if b.kept == nil {
		b.kept = make([]*loaded, len(b.plan.parts))
	}
	b.release(func(i int, l *loaded) bool { return l.text == texts[i] })
	for i, p := range b.plan.parts {
		if b.kept[i] != nil {
			continue
		}
		l, err := b.loadPart(ctx, p.version, texts[i])
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if err != nil {
			err = excluded(err)
		}
		b.kept[i] = l
		if err != nil {
			return nil, err
		}
	}
	return b.assemble()
}

// loadPart loads one model beside what serves.
func (b *bench) loadPart(ctx context.Context, v *edgewise.Version, text string) (*loaded, error) {
	declared, err := modelconfig.Parse(modelconfig.Pbtxt, []byte(text))
	if err != nil {
		return nil, err
	}
	m, err := b.config.Models.Configured(ctx, v.ID, declared)
	if err != nil {
		return nil, err
	}
	beside, err := b.config.Models.Beside(ctx, v.ID, declared)
	if err != nil {
		return nil, err
	}
	as := *v
	as.Model = m
	return &loaded{text, &as, beside}, nil
}

// release unloads the parts that keep does not want. nil: all.
func (b *bench) release(keep func(i int, l *loaded) bool) {
	for i, l := range b.kept {
		if l == nil || keep != nil && keep(i, l) {
			continue
		}
		b.kept[i] = nil
		if err := l.beside.Close(); err != nil {
			b.config.Logger.Warn("a candidate of a tuning did not close cleanly", "model", l.version.ID.String(), "error", err)
		}
	}
}

// assemble makes what answers of the parts that are loaded.
func (b *bench) assemble() (*candidate, error) {
	c := &candidate{parts: b.kept}
	for _, p := range c.parts {
		c.rows = max(c.rows, int(p.version.Model.MaxBatchSize))
		c.sequences = c.sequences || p.version.Model.SequenceBatching != nil
	}
	if !b.plan.ensemble {
		alone := c.parts[0].beside
		c.model = loopback.Model{Inferer: alone, AllocBody: alone.AllocBody}
		return c, nil
	}
	steps := make([]*edgewise.Version, len(b.model.EnsembleScheduling.Step))
	for i, s := range b.model.EnsembleScheduling.Step {
		for _, p := range c.parts {
			if p.version.ID == (edgewise.ModelID{Name: s.ModelName, Version: s.Pinned.Version}) {
				steps[i] = p.version
			}
		}
	}
	e, err := ensemble.New(&edgewise.Version{ID: b.id, Model: b.model}, steps, ensemble.Config{
		Infer: c, Check: sched.NewChecker(b.model).Check, MaxQueue: b.config.MaxQueue, Logger: b.config.Logger,
		Independent: c.independent,
	})
	if err != nil {
		return nil, excluded(err)
	}
	c.ensemble, c.model = e, loopback.Model{Inferer: e}
	return c, nil
}

// callers is how many requests keep a candidate busy.
func (c *candidate) callers(cores int) int {
	n := search.Callers(cores, c.rows)
	if c.ensemble != nil {
		return min(n, ensembleCallers)
	}
	return n
}

// takes is what the processes of its parts have for themselves, in bytes.
func (c *candidate) takes() (sum int64) {
	for _, p := range c.parts {
		sum += p.beside.Takes()
	}
	return sum
}

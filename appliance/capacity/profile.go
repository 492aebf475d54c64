package capacity

import (
	"context"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/load"
)

// How a model is measured.
const (
	warmTime     = 300 * time.Millisecond
	singleTime   = time.Second             // with as many requests in progress as cores
	profileTime  = 1500 * time.Millisecond // with more requests than it can answer
	leastAnswers = 20                      // or else three times the time
	mostCallers  = 128
)

// source finds requests that a model answers, and says where they come from. Errors: ctx's, those of load.Known.Choose.
func (c *Capacities) source(ctx context.Context, v *edgewise.Version) (*load.Source, string, error) {
	s := &load.Source{Infer: c.config.Infer.Infer, Sequences: v.Model.SequenceBatching != nil}
	chosen, err := c.config.Known.Choose(ctx, v.Model, v.ID, func(ctx context.Context, r *edgewise.Request) error {
		s.Samples = []*edgewise.Request{r}
		return s.Send(ctx)
	})
	switch {
	case ctx.Err() != nil:
		return nil, "", edgewise.Errorf("capacity.source", edgewise.KindOf(ctx.Err()), "%w", ctx.Err())
	case err != nil:
		return nil, "", edgewise.Errorf("capacity.source", edgewise.KindOf(err), "model %q cannot be measured: %w",
			v.ID.Name, err)
	}
	s.Samples = chosen.Requests
	return s, chosen.Origin, nil
}

// profile returns what was measured of a version, or measures it.
func (c *Capacities) profile(ctx context.Context, v *edgewise.Version, s *load.Source, origin string, again bool) (*Profile, error) {
	c.mu.Lock()
	known := c.profiles[v.ID]
	c.mu.Unlock()
	if known != nil && known.Inputs == origin && !again {
		return known, nil
	}
	guarded, stop, err := c.quiet(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	limited, cancel := context.WithTimeout(guarded, mostOfProfile)
	defer cancel()
	p, err := c.measure(limited, v, s)
	if err != nil {
		return nil, interrupted(err)
	}
	p.Inputs = origin
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.profiles) >= maxProfiles {
		clear(c.profiles)
	}
	c.profiles[v.ID] = p
	return p, nil
}

// measure sends a model first one request after the other, then as many at a time as there are cores, and then more than
// it can answer.
func (c *Capacities) measure(ctx context.Context, v *edgewise.Version, s *load.Source) (*Profile, error) {
	callers := min(max(4*c.config.Cores, 2*int(v.Model.MaxBatchSize)), mostCallers)
	if _, err := saturate(ctx, s, callers, warmTime); err != nil {
		return nil, err
	}
	alone, err := saturate(ctx, s, 1, warmTime)
	if err != nil {
		return nil, err
	}
	p := &Profile{ID: v.ID, Steps: max(len(v.Model.Pins()), 1)}
	if p.Single, _, err = c.cost(ctx, v, s, c.config.Cores, singleTime); err != nil {
		return nil, err
	}
	var full *times
	if p.Full, full, err = c.cost(ctx, v, s, callers, profileTime); err != nil {
		return nil, err
	}
	chain := 0.0
	for _, d := range p.Full.Demands {
		if d.Runs > 0 {
			chain += d.Seconds / d.Runs
		}
	}
	p.Most = float64(len(full.took)) / full.lasted.Seconds()
	p.Base = max(alone.quantile(0.5)/1000, chain)
	return p, nil
}

// cost measures what a request takes while so many are in progress, for d, and up to three times as long where few are
// answered. Errors: Unavailable when none is answered, those of saturate.
func (c *Capacities) cost(
	ctx context.Context, v *edgewise.Version, s *load.Source, callers int, d time.Duration,
) (Cost, *times, error) {
	leaves := c.leaves(v)
	before, began, all := c.statistics(leaves), c.config.Time(), &times{}
	for range 3 {
		t, err := saturate(ctx, s, callers, d)
		if err != nil {
			return Cost{}, nil, err
		}
		all.took, all.lasted = append(all.took, t.took...), all.lasted+t.lasted
		if len(all.took) >= leastAnswers {
			break
		}
	}
	answers := float64(len(all.took))
	if answers == 0 {
		return Cost{}, nil, edgewise.Errorf("capacity.cost", edgewise.Unavailable, "model %v answered no request in %v",
			v.ID, 3*d)
	}
	cost := Cost{Core: (c.config.Time() - began).Seconds() / answers}
	for i, now := range c.statistics(leaves) {
		d := Demand{ID: leaves[i], Instances: 1, Device: strings.TrimPrefix(c.config.Device(leaves[i]), "cpu")}
		d.Seconds = (busy(now) - busy(before[i])) / answers
		d.Runs = float64(now.ExecutionCount-before[i].ExecutionCount) / answers
		if of, _, err := c.config.Version(leaves[i]); err == nil {
			d.Instances = of.Model.Concurrency(c.config.Cores).Instances
		}
		cost.Demands = append(cost.Demands, d)
	}
	return cost, all, nil
}

func (c *Capacities) statistics(ids []edgewise.ModelID) []edgewise.Statistics {
	list := make([]edgewise.Statistics, len(ids))
	for i, id := range ids {
		list[i], _ = c.config.Statistics(id)
	}
	return list
}

// busy is the time, in seconds, that the instances of a version have been busy.
func busy(s edgewise.Statistics) float64 {
	var total time.Duration
	for _, b := range s.Batches {
		total += b.ComputeInput.Total + b.ComputeInfer.Total + b.ComputeOutput.Total
	}
	return total.Seconds()
}

// run sends the requests of a question at their rates, all models at the same time, and says what came of it.
func (c *Capacities) run(
	ctx context.Context, ask admin.CapacityRequest, sources []*load.Source, loads []Load,
) (*admin.CapacityCheck, error) {
	guarded, stop, err := c.quiet(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	d := checkTime(ask)
	began, started := c.config.Time(), time.Now()
	results := make([]chan *times, len(sources))
	for i, s := range sources {
		results[i] = make(chan *times, 1)
		last := max(leastLast, 2*time.Duration(loads[i].Base*float64(time.Second)))
		go func() { results[i] <- offer(guarded, s, ask.Models[i].Rate, d, last, uint64(i)) }()
	}
	idle.Sleep(guarded, d)
	used := (c.config.Time() - began).Seconds() / time.Since(started).Seconds()
	found := &admin.CapacityCheck{Held: true, Seconds: d.Seconds(), Cores: used / float64(c.config.Cores)}
	for i, m := range ask.Models {
		t := <-results[i]
		one := checked(m, t, d.Seconds())
		found.Held = found.Held && one.Reason == ""
		found.Models = append(found.Models, one)
	}
	if guarded.Err() != nil {
		return nil, interrupted(context.Cause(guarded))
	}
	return found, nil
}

// When a load is held.
const (
	mostLate  = 0.03 // of the requests that are due within the time of a check are answered after it
	fewLate   = 2    // of them, where they are few
	leastLast = 250 * time.Millisecond
)

// checked says what came of one model's requests.
func checked(m admin.CapacityModel, t *times, seconds float64) admin.CapacityChecked {
	one := admin.CapacityChecked{
		Model: m.Model, Offered: float64(t.offered) / seconds, Answered: float64(t.within) / seconds, Failed: t.failed,
		P50: t.quantile(0.5), P99: t.quantile(0.99),
	}
	switch {
	case t.failed > 0:
		one.Reason = t.firstErr.Error()
	case float64(t.late) > max(mostLate*float64(t.due), fewLate):
		one.Reason = "the queue grew"
	case m.P99 > 0 && one.P99 > m.P99:
		one.Reason = "p99 above its bound"
	}
	return one
}

package tune

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/idle"
)

// current is what the current configuration of a part shows when it is loaded.
type current struct {
	took        time.Duration // by a part of an ensemble for all samples; 0 for a model alone
	independent bool          // its rows are known not to depend on each other
}

// arrange loads the current configuration, and lists what is searched. Of an ensemble the parts are in the order of the
// time that they take for the samples, the slowest first. Errors: those of Open, Unsupported where nothing can be set.
func (b *bench) arrange(ctx context.Context) error {
	shows, err := b.current(ctx)
	if err != nil {
		return err
	}
	p := b.plan
	for _, one := range p.parts {
		one.space, err = b.space(one, shows[one.version.ID].independent)
		if err != nil && (!p.ensemble || edgewise.KindOf(err) != edgewise.Unsupported) {
			return err
		}
	}
	if p.ensemble {
		b.release(nil) // what is loaded is known by its place
		slices.SortStableFunc(p.parts, func(x, y *part) int {
			return cmp.Compare(shows[y.version.ID].took, shows[x.version.ID].took)
		})
	}
	p.arrange()
	if len(p.axes) == 0 {
		return edgewise.Errorf("tune.arrange", edgewise.Unsupported, "ensemble %q: nothing of its models can be tuned",
			b.id.Name)
	}
	return nil
}

// current opens the current configuration. Its parts stay loaded.
func (b *bench) current(ctx context.Context) (map[edgewise.ModelID]current, error) {
	for {
		if err := b.Quiet(ctx); err != nil {
			return nil, err
		}
		began := time.Now()
		opened, err := b.Open(ctx, "")
		if errors.Is(err, idle.ErrTraffic) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		b.arranged = time.Since(began)
		return opened.(*session).candidate.shows(), nil
	}
}

// shows is what the parts of a candidate show.
func (c *candidate) shows() map[edgewise.ModelID]current {
	took := map[edgewise.ModelID]time.Duration{}
	if c.ensemble != nil {
		for _, s := range c.ensemble.Statistics().Steps {
			took[s.Model] += s.Success.Total
		}
	}
	list := map[edgewise.ModelID]current{}
	for _, p := range c.parts {
		id := p.version.ID
		list[id] = current{took[id], c.independent(id)}
	}
	return list
}

// space is what can be set of a part.
func (b *bench) space(one *part, independent bool) (*space, error) {
	v := one.version
	format, _ := b.config.Formats.Of(v.Model)
	return newSpace(one.declared, subject{
		model: v.Model, format: format, cores: b.config.Cores, independent: independent, inProcess: b.config.InProcess,
		device: b.config.Device(v.ID), step: b.plan.ensemble,
	})
}

package tune

import (
	"context"
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/loopback"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// curveShare is the part of a tuning's time in which the curves of the report are measured.
const curveShare = 0.12

// tune runs a tuning to its end.
func (t *Tuner) tune(ctx context.Context, j *job) {
	id := edgewise.ModelID{Name: j.shown.Model, Version: j.shown.Version}
	work, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	t.config.Changed(id)
	report, changes, err := t.measure(work, j, id)
	if err == nil {
		err = t.apply(work, j, report, changes)
	}
	t.mu.Lock()
	switch {
	case err == nil:
		j.shown.Report = report
		j.end(admin.TuneDone)
	case work.Err() != nil:
		j.end(admin.TuneStopped)
	default:
		j.shown.Error = shorten(err.Error())
		j.end(admin.TuneFailed)
	}
	state := j.shown.State
	t.mu.Unlock()
	j.cancel()
	attributes := []any{"model", id.String(), "state", state, "objective", j.shown.Objective.String()}
	switch {
	case err == nil:
		t.config.Logger.Info("a model was tuned", append(attributes, "version", report.Version, "gain", report.Gain,
			"found", report.Conclusion())...)
	default:
		t.config.Logger.Info("the tuning of a model ended", append(attributes, "reason", err)...)
	}
	t.config.Changed(id)
}

// measure searches, and returns the report, which names no new version yet, with the configurations for new ones; none
// where the current one is the best.
func (t *Tuner) measure(ctx context.Context, j *job, id edgewise.ModelID) (r *admin.TuneReport, changes []change, err error) {
	began := time.Now()
	b, err := t.newBench(j, id)
	if err != nil {
		return nil, nil, err
	}
	defer b.close()
	if err := b.arrange(ctx); err != nil {
		return nil, nil, unwrapped(err)
	}
	searching, curves := shares(time.Duration(j.shown.Limit)*time.Second, b.arranged)
	found, err := search.Search{
		Axes: b.plan.axes, Objective: objective(j.shown.Objective), Bench: b, Limit: searching,
		Tried: func(c search.Candidate, phase string) { t.progress(j, b.plan, c, phase) },
	}.Run(ctx)
	if err != nil {
		return nil, nil, unwrapped(err)
	}
	t.note(j, "curves of the report")
	found.Curves(ctx, b, curves)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if changes, err = b.plan.changes(found.Best); err != nil {
		return nil, nil, err
	}
	return reportOf(b, j, found, t.machine(j.version), began), changes, nil
}

// shares divides the limit of a tuning. What it took to load the current configuration first is part of the limit; the search and
// the curves have half of it at the least.
func shares(limit, loaded time.Duration) (searching, curves time.Duration) {
	left := max(limit-loaded, limit/2)
	curves = time.Duration(curveShare * float64(left))
	return left - curves, curves
}

// unwrapped makes an error of a tuning of why the current configuration cannot be measured.
func unwrapped(err error) error {
	var e *search.Excluded
	if errors.As(err, &e) {
		return edgewise.Errorf("tune.measure", edgewise.Unsupported, "the current configuration cannot be measured: %s", e.Reason)
	}
	return err
}

// newBench makes the bench of a tuning. It is closed.
func (t *Tuner) newBench(j *job, id edgewise.ModelID) (*bench, error) {
	versions, err := t.partsOf(j.version)
	if err != nil {
		return nil, err
	}
	p := &plan{ensemble: j.version.Model.EnsembleScheduling != nil}
	for _, v := range versions {
		text, _, err := t.config.Models.Declared(v.ID)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, &part{version: v, declared: text})
	}
	sender, err := loopback.New(t.config.Loopback, t.config.Logger)
	if err != nil {
		return nil, err
	}
	b := &bench{Tuner: t, id: id, model: j.version.Model, plan: p, quiet: leastQuiet, sender: sender}
	if objective(j.shown.Objective).Energy() {
		b.energy = t.config.Energy
	}
	b.waiting = func(waits bool) { t.waits(j, waits) }
	b.waiting(false)
	return b, nil
}

// waits notes whether a tuning waits for clients.
func (t *Tuner) waits(j *job, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !j.shown.Active() {
		return
	}
	j.shown.State = admin.TuneMeasuring
	if waits {
		j.shown.State = admin.TuneWaiting
	}
}

func (t *Tuner) progress(j *job, p *plan, c search.Candidate, phase string) {
	name := (&admin.TuneCandidate{Settings: p.names(c)}).Name()
	t.note(j, phase+": "+name)
	t.mu.Lock()
	j.shown.Measured++
	t.mu.Unlock()
}

func (t *Tuner) note(j *job, phase string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.shown.Active() {
		j.shown.Phase = phase
	}
}

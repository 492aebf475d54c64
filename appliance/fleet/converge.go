package fleet

import (
	"context"
	"maps"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// converge does what the document wants, one step after the other, until nothing is left that can be done now.
func (f *Fleet) converge(ctx context.Context) {
	for range actionsAtATime {
		f.mu.Lock()
		a := f.current
		if a == nil || !f.trusted || ctx.Err() != nil {
			f.mu.Unlock()
			return
		}
		list := f.wishes(a)
		f.mu.Unlock()
		if state, _ := a.standing(f.config.Now()); state != "" {
			return
		}
		if err := f.settle(a.document, list); err != nil {
			f.config.Logger.Error("what became of the fleet's wishes cannot be stored", "error", err)
			return
		}
		if !f.step(ctx, a.document, list) {
			return
		}
	}
}

// settle remembers what is done, and what was taken back.
func (f *Fleet) settle(d *Document, list []admin.Wish) error {
	f.mu.Lock()
	attempts := maps.Clone(f.state.Attempts)
	f.mu.Unlock()
	for _, w := range list {
		if w.Model == "" || w.State != admin.WishDone && w.State != admin.WishTakenBack {
			continue
		}
		e := d.entryOf(w)
		is := attempt{Serial: d.Serial, Digest: e.digest(), Outcome: w.State, Reason: w.Reason}
		if was := attempts[e.key()]; was.Serial != is.Serial || was.Digest != is.Digest || was.Outcome != is.Outcome {
			attempts[e.key()] = is
		}
	}
	return f.remember(attempts, nil)
}

// remember stores attempts, when they differ from those that are stored, and the content of one manifest.
func (f *Fleet) remember(attempts map[string]attempt, contents map[string]edgewise.Digest) error {
	f.mu.Lock()
	same := maps.Equal(attempts, f.state.Attempts) && (contents == nil || maps.Equal(contents, f.state.Contents))
	next := state{attempts, f.state.Contents}
	if contents != nil {
		next.Contents = contents
	}
	f.mu.Unlock()
	if same {
		return nil
	}
	if err := f.store(map[string]any{stateKey: next}); err != nil {
		return err
	}
	f.mu.Lock()
	f.state = next
	f.mu.Unlock()
	return nil
}

// step does the first thing that can be done, and tells whether there was one.
func (f *Fleet) step(ctx context.Context, d *Document, list []admin.Wish) bool {
	for _, w := range list {
		if w.State != admin.WishNext {
			continue
		}
		err := f.act(edgewise.WithPrincipal(ctx, &edgewise.Principal{Kind: "fleet", Name: d.Fleet}), d, w)
		if ctx.Err() != nil {
			return false
		}
		f.outcome(d, w, err)
		return true
	}
	return false
}

// act does what a wish needs next.
func (f *Fleet) act(ctx context.Context, d *Document, w admin.Wish) error {
	if w.Next == admin.FleetSettings {
		s := d.Settings
		_, err := f.config.Box.ChangeSettings(admin.SettingsChange{
			SessionIdle: s.SessionIdle, Session: s.Session, MetricsPublic: s.MetricsPublic, KeepVersions: s.KeepVersions,
		})
		return err
	}
	e := d.entryOf(w)
	if w.Next == admin.FleetImport {
		return f.install(ctx, e)
	}
	if err := f.begin(d, e); err != nil {
		return err
	}
	id := edgewise.ModelID{Name: e.Model, Version: w.Version}
	switch {
	case w.Next == admin.FleetRollout:
		plan := *e.Rollout
		plan.Version = w.Version
		_, err := f.config.Rollouts.Start(ctx, e.Model, plan)
		return err
	case e.Label == edgewise.LiveLabel:
		_, err := f.config.Models.GoLive(ctx, id, true)
		return err
	}
	_, err := f.config.Models.SetLabel(ctx, e.Model, e.Label, w.Version)
	return err
}

// install stores the version of an entry.
func (f *Fleet) install(ctx context.Context, e *Entry) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	v, err := f.config.Install(ctx, e.Model, e.Reference)
	if err != nil {
		return err
	}
	f.mu.Lock()
	attempts, contents := f.state.Attempts, maps.Clone(f.state.Contents)
	f.mu.Unlock()
	contents[e.digest()] = v.Digest
	return f.remember(attempts, contents)
}

// begin remembers that a label is about to move, before it does: a rollout that is there afterwards is that of this serial.
func (f *Fleet) begin(d *Document, e *Entry) error {
	a := attempt{Serial: d.Serial, Digest: e.digest()}
	if r, err := f.config.Rollouts.Get(e.Model); err == nil {
		a.Before = r.Started
	}
	f.mu.Lock()
	attempts := maps.Clone(f.state.Attempts)
	f.mu.Unlock()
	attempts[e.key()] = a
	return f.remember(attempts, nil)
}

// outcome notes how an action has ended. One that failed is tried again after a while; a version that fails its goldens, or that
// cannot be loaded again and again, is not.
func (f *Fleet) outcome(d *Document, w admin.Wish, err error) {
	key := wishKey(w)
	if err == nil {
		f.mu.Lock()
		if w.Next != admin.FleetImport {
			delete(f.failures, key)
		}
		f.mu.Unlock()
		f.config.Logger.Info("the fleet's wish", "model", w.Model, "label", w.Label, "version", w.Version, "did", w.Next)
		return
	}
	f.mu.Lock()
	failed := f.failures[key]
	failed.attempts++
	failed.reason = brief(w.Next + ": " + err.Error())
	failed.until = time.Now().Add(f.backOff(failed.attempts))
	f.failures[key] = failed
	f.failed++
	attempts := maps.Clone(f.state.Attempts)
	f.mu.Unlock()
	f.config.Logger.Warn("a wish of the fleet fails", "model", w.Model, "label", w.Label, "does", w.Next, "attempt", failed.attempts, "error",
		err)
	if !hopeless(w.Next, err, failed.attempts) {
		return
	}
	e := d.entryOf(w)
	attempts[key] = attempt{Serial: d.Serial, Digest: e.digest(), Outcome: admin.WishTakenBack, Reason: failed.reason}
	if err := f.remember(attempts, nil); err != nil {
		f.config.Logger.Error("what became of a fleet's wish cannot be stored", "error", err)
	}
}

// hopeless tells whether a version is no good on this box: not when it could not be fetched, or when it is the box that lacks
// something.
func hopeless(action string, err error, attempts int) bool {
	if action != admin.FleetLabel && action != admin.FleetRollout {
		return false
	}
	switch edgewise.KindOf(err) {
	case edgewise.Conflict, edgewise.Busy, edgewise.Unavailable, edgewise.Exhausted, edgewise.Canceled, edgewise.Deadline:
		return admin.FailsGoldens(err)
	}
	return admin.FailsGoldens(err) || attempts >= maxAttempts
}

// backOff is the time before an action is tried again that has failed so many times.
func (f *Fleet) backOff(attempts int) time.Duration {
	pause := min(firstBackOff, f.config.Fleet.Interval)
	for range attempts - 1 {
		if pause = 2 * pause; pause >= maxBackOff {
			return maxBackOff
		}
	}
	return pause
}

package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// Start begins a rollout: it loads the candidate beside the live version, and then sends it the share of the first
// stage. A plan that says no more than the version is completed by that of the version or its model. Errors: Invalid with
// Field, NotFound, Conflict while the model has a rollout, when clients of the live version cannot use the candidate, or
// when it does not pass its goldens, and why the candidate cannot be loaded.
func (s *Rollouts) Start(ctx context.Context, name string, plan admin.RolloutPlan) (admin.Rollout, error) {
	plan, err := s.whole(name, plan)
	if err != nil {
		return admin.Rollout{}, err
	}
	if err := complete(&plan); err != nil {
		return admin.Rollout{}, err
	}
	if err := s.reserve(name); err != nil {
		return admin.Rollout{}, err
	}
	defer func() {
		s.mu.Lock()
		delete(s.starting, name)
		s.mu.Unlock()
	}()
	if old := s.find(name); old != nil { // nothing more of it is stored
		select {
		case old.moves <- struct{}{}:
			defer func() { <-old.moves }()
		case <-ctx.Done():
			return admin.Rollout{}, fmt.Errorf("the rollout of model %q before this one is being stored: %w", name, ctx.Err())
		}
	}
	from, err := s.begin(ctx, name, plan)
	if err != nil {
		return admin.Rollout{}, err
	}
	shown := admin.Rollout{
		Model: name, From: from, Plan: plan, State: admin.RolloutRunning, Percent: plan.Stages[0].Percent,
		Actor: edgewise.PrincipalOf(ctx).Actor(), Started: time.Now().UTC(),
	}
	r := &rollout{moves: make(chan struct{}, 1), trial: s.newTrial(&shown, newMeasured())}
	r.trial.stage(len(plan.Stages))
	note(&shown, stageText(&shown))
	if err := s.try(r, &shown); err != nil {
		s.config.Manager.Split(name, manager.Split{})
		return admin.Rollout{}, err
	}
	r.shown = shown
	r.moves <- struct{}{} // nobody moves it before it has begun
	s.mu.Lock()
	if old := s.all[name]; old != nil {
		old.unsaved.Store(false)
	}
	s.all[name] = r
	s.mu.Unlock()
	s.split(r, &shown)
	s.publishTrials()
	s.told(&shown, stageText(&shown)) // who is told finds it
	<-r.moves
	s.wakeUp()
	return s.describe(r), nil
}

// reserve keeps a second rollout of a model from being started. Errors: Conflict.
func (s *Rollouts) reserve(name string) error {
	const op = "rollout.Start"
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.all[name]; s.starting[name] || r != nil && r.shown.Active() {
		return edgewise.Errorf(op, edgewise.Conflict, "model %q has a rollout in progress: stop that first", name)
	}
	active := len(s.starting)
	for _, r := range s.all {
		if r.shown.Active() {
			active++
		}
	}
	if active >= maxActive {
		return edgewise.Errorf(op, edgewise.Conflict, "%d rollouts are in progress, the most that is allowed", maxActive)
	}
	s.starting[name] = true
	return nil
}

// begin loads a candidate beside the live version of a model, has it answer the goldens, and returns the live version.
func (s *Rollouts) begin(ctx context.Context, name string, plan admin.RolloutPlan) (from int64, err error) {
	const op = "rollout.Start"
	candidate := plan.Version
	if err := s.config.Models.Changeable(op, name); err != nil {
		return 0, err
	}
	record := s.config.Models.Lookup(name)
	if record == nil {
		return 0, edgewise.Errorf(op, edgewise.NotFound, "there is no model %q", name)
	}
	from = record.Label(edgewise.LiveLabel)
	old, next := record.Version(from), record.Version(candidate)
	switch {
	case next == nil:
		return 0, edgewise.Errorf(op, edgewise.NotFound, "model %q has no version %d", name, candidate)
	case old == nil || !record.Wanted:
		return 0, edgewise.Errorf(op, edgewise.Conflict, "model %q has no live version to compare with: activate version %d",
			name, candidate)
	case from == candidate:
		return 0, edgewise.Errorf(op, edgewise.Conflict, "version %d of model %q is live", candidate, name)
	}
	for _, d := range admin.SignatureChanges(old, next) {
		if d.Breaking {
			return 0, edgewise.Errorf(op, edgewise.Conflict, "clients of version %d of model %q cannot use version %d: %v",
				from, name, candidate, d)
		}
	}
	if err := checkStream(&plan, next); err != nil {
		return 0, err
	}
	if err := checkMetric(plan.Metric, old, next); err != nil {
		return 0, err
	}
	s.config.Manager.Split(name, manager.Split{Live: from, Version: candidate})
	if err := s.config.Manager.Await(ctx, next.ID); err != nil {
		s.config.Manager.Split(name, manager.Split{})
		return 0, edgewise.Errorf(op, edgewise.KindOf(err), "version %d cannot answer beside version %d: %w", candidate, from,
			err)
	}
	if err := s.config.Prove(ctx, next.ID); err != nil {
		s.config.Manager.Split(name, manager.Split{})
		return 0, err
	}
	return from, nil
}

// act does something to a rollout in progress that somebody asked for. Errors: NotFound, Conflict when it has ended,
// those of do.
func (s *Rollouts) act(ctx context.Context, name string, do func(r *rollout, shown admin.Rollout) error) (admin.Rollout,
	error,
) {
	r := s.find(name)
	if r == nil {
		return s.Get(name)
	}
	select {
	case r.moves <- struct{}{}:
	case <-ctx.Done():
		return admin.Rollout{}, fmt.Errorf("the rollout of model %q is being moved: %w", name, ctx.Err())
	}
	defer func() { <-r.moves }()
	shown := s.get(r)
	if !shown.Active() {
		return shown, edgewise.Errorf("rollout.act", edgewise.Conflict, "the rollout of model %q has ended: %s", name,
			shown.State)
	}
	if reason := replaced(s.config.Models.Lookup(name), &shown); reason != "" {
		s.finish(r, shown, admin.RolloutReplaced, reason)
		return s.describe(r), edgewise.Errorf("rollout.act", edgewise.Conflict, "the rollout of model %q has ended: %s", name,
			reason)
	}
	r.byHand = true
	defer func() { r.byHand = false }()
	err := do(r, shown)
	return s.describe(r), err
}

// Promote makes the candidate live now. Errors: NotFound, Conflict when it is or the rollout has ended, and those of the
// registry.
func (s *Rollouts) Promote(ctx context.Context, name string) (admin.Rollout, error) {
	return s.act(ctx, name, func(r *rollout, shown admin.Rollout) error {
		if shown.State != admin.RolloutRunning {
			return edgewise.Errorf("rollout.Promote", edgewise.Conflict, "the rollout of model %q is %s", name, shown.State)
		}
		return s.promote(ctx, r, shown, "promoted by "+edgewise.PrincipalOf(ctx).Actor())
	})
}

// Stop ends a rollout: what is live stays live, and answers all requests. Errors: NotFound, Conflict when it has ended
// or goes back.
func (s *Rollouts) Stop(ctx context.Context, name string) (admin.Rollout, error) {
	return s.act(ctx, name, func(r *rollout, shown admin.Rollout) error {
		if shown.State == admin.RolloutReverting {
			return edgewise.Errorf("rollout.Stop", edgewise.Conflict, "the rollout of model %q goes back", name)
		}
		s.finish(r, shown, admin.RolloutStopped, "stopped by "+edgewise.PrincipalOf(ctx).Actor())
		return nil
	})
}

// Back takes the candidate back. Errors: NotFound, Conflict when the rollout has ended.
func (s *Rollouts) Back(ctx context.Context, name string) (admin.Rollout, error) {
	return s.act(ctx, name, func(r *rollout, shown admin.Rollout) error {
		reason := "rolled back by " + edgewise.PrincipalOf(ctx).Actor()
		r.trial.fail(reason)
		s.back(ctx, r, shown, reason)
		return nil
	})
}

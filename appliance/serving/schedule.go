package serving

import (
	"context"
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/ratelimit"
	"github.com/edgewise-ai/edgewise/appliance/sched/sequence"
)

// schedulerConfig finds out what can be known of a version's runs before it is loaded.
func (t *load) schedulerConfig() (c sched.Config, err error) {
	c = sched.Config{MaxQueue: t.config.MaxQueue, Hold: t.config.Hold, Logger: t.config.Logger}
	if c.Padding, err = t.padding(); err != nil {
		return c, err
	}
	c.Proof, err = t.proof()
	return c, err
}

// padding is how a version's requests are padded. Only for a version that asks for it is the model file read.
func (t *load) padding() (*sched.Padding, error) {
	if _, ok := t.version.Model.Parameters[sched.PaddingParameter]; !ok {
		return nil, nil
	}
	inspection, err := t.inspection()
	if err != nil {
		return nil, err
	}
	return sched.NewPadding(t.version.Model, inspection)
}

// proof is what the author's configuration, and the names of dimensions in the model's file, say of whether its
// requests may be merged. What a stored version was completed to does not say who chose it.
func (t *load) proof() (*sched.Proof, error) {
	declared, err := t.declared, error(nil)
	if declared == nil {
		declared, err = modelconfig.Read(t.dir, t.version.Model.Name)
	}
	if err != nil {
		return nil, err
	}
	if word := modelconfig.Declared(declared); word != "" {
		return &sched.Proof{Declared: word}, nil
	}
	inspection, err := t.inspection()
	if err != nil {
		return nil, err
	}
	if n := inspection.MaxBatchSize; n != nil && *n > 0 {
		return &sched.Proof{Declared: fmt.Sprintf("the model's file declares max_batch_size %d", *n)}, nil
	}
	return &sched.Proof{Refuted: modelconfig.Unshared(inspection)}, nil
}

// schedule puts the scheduler that a version asks for in front of its instance. fresh warms it up. When that fails the
// instance is closed.
func (t *load) schedule(instance edgewise.Instance, c sched.Config) (
	loaded *manager.Loaded, fresh unannounced, err error,
) {
	l, v, claim, instances := t.Loader, t.version, (*ratelimit.Claim)(nil), t.resized()
	defer func() {
		if err != nil {
			claim.Close()
			err = closeAll(err, []edgewise.Instance{instance}, t.onClose)
		}
	}()
	if claim, err = t.claim(); err != nil {
		return nil, nil, err
	}
	c.Claim, c.Instances, c.Cores = claim, t.place.instances, t.place.cores
	c.Threads, c.SoloThreads = t.place.threads, t.place.solo
	if c.Hold != (sched.Hold{}) {
		c.Logger.Warn("a test holds requests back (engine.test_queued, engine.test_backlog)",
			"model", v.ID.String(), "until", c.Hold)
	}
	loaded = &manager.Loaded{OnClose: t.onClose, Again: t.again()}
	if asked, ok := instance.(interface{ Ready(context.Context) error }); ok {
		loaded.Check = asked.Ready
	}
	if v.Model.SequenceBatching == nil {
		s := sched.New(v, instance, c)
		loaded.Servable, loaded.Isolated, fresh = s, s, s
		loaded.Resize = func(m *edgewise.Model) { s.Resize(instances(m)) }
		if !wantsCache(v.Model) { // the cache looks at tensors, which another process could change in borrowed memory
			loaded.Borrow = s.AllocBody
		}
	} else {
		initial, err := initialStates(v.Model, t.dir)
		if err != nil {
			return nil, nil, err
		}
		s := sequence.New(v, instance, c, sequence.Config{Initial: initial, Budget: t.config.States})
		loaded.Servable, loaded.Isolated, loaded.Sequences, fresh = s, s, s, s
		loaded.Resize = func(m *edgewise.Model) { s.Resize(instances(m), m) }
	}
	l.withClaim(loaded, v.ID, claim)
	return loaded, fresh, nil
}

// resized tells how many batches of the version run at the same time when its instance groups change: on a GPU as many as
// before, since its sessions are made when it is loaded.
func (t *load) resized() func(m *edgewise.Model) int {
	l, format, place := t.Loader, t.format, t.place
	return func(m *edgewise.Model) int {
		if place.devices[0].Kind != edgewise.CPU {
			return place.instances
		}
		return l.instances(m, format, place.devices)
	}
}

// claim enters a version's instances with the rate limiter; nil when it is off. Errors: those of Limiter.Open.
func (t *load) claim() (*ratelimit.Claim, error) {
	limited := func(g edgewise.InstanceGroup) bool { return g.RateLimiter != nil }
	if t.config.Limiter == nil && slices.ContainsFunc(t.version.Model.InstanceGroup, limited) {
		t.config.Logger.Info("rate_limiter has no effect: engine.rate_limit is off", "model", t.version.ID.String())
	}
	return t.config.Limiter.Open(t.version.Model, t.place.devices[0].Index)
}

// withClaim makes the claim follow a version's instance groups.
func (l *Loader) withClaim(loaded *manager.Loaded, id edgewise.ModelID, claim *ratelimit.Claim) {
	resize := loaded.Resize
	loaded.Resize = func(m *edgewise.Model) {
		if err := claim.Resize(m); err != nil {
			l.config.Logger.Error("rate_limiter of the instance groups stays as it was", "model", id.String(), "error", err)
		}
		resize(m)
	}
}

package appliance

import (
	"context"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/monitor"
	"github.com/edgewise-ai/edgewise/appliance/observe"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/repository"
)

// engine is what the frontends of the inference protocol see of the appliance.
type engine struct {
	*manager.Manager
	*monitor.Monitor // receives the requests of clients; App.inside receives those of steps and ensembles
	registry         *registry.Registry
	repositories     *repository.Repositories
	safe             func() bool // whether models are left alone after crashes; nil: they never are
	strict           bool        // ready means that every wanted version is
	started          atomic.Bool // the stored desired states are applied
	ending           atomic.Bool // the box is stopping
}

// Version returns what a model is, and which of its versions are ready: of those that id names.
func (e *engine) Version(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error) {
	if v, ready, err = e.Manager.Version(id); err != nil {
		err = e.repositories.Explain(id, err)
	}
	return v, ready, err
}

// Live tells whether the box works at all. A stopping box still does: it drains.
func (e *engine) Live() bool { return e.started.Load() && e.repositories.Initialized() }

// Ready tells whether requests should be sent here. Without strict readiness models may have failed to load, but
// those of the repositories have been tried: Triton does not listen before.
func (e *engine) Ready() bool {
	switch {
	case e.safe != nil && e.safe() || !e.Live() || e.ending.Load():
		return false
	case e.strict:
		return e.Manager.Ready() && e.repositories.Ready()
	}
	return e.repositories.Loaded()
}

// VersionReady returns nil when requests to id are answered.
func (e *engine) VersionReady(id edgewise.ModelID) error {
	if _, _, err := e.Version(id); err != nil {
		return err
	}
	return e.Present(id)
}

// Index lists the status of every version that was asked for; of models that were not, the live version as unloaded, or the name alone
// when there is none.
func (e *engine) Index() []edgewise.Status {
	all := e.Statuses()
	for i := range all {
		s := &all[i]
		s.Health = e.History.Health(s.ID)
		if s.State != edgewise.StateReady {
			continue
		}
		if measured, err := e.Manager.Statistics(s.ID); err == nil {
			s.Batching = measured.Batching
		}
	}
	return e.repositories.Index(all)
}

// Load makes a model ready and waits for it.
func (e *engine) Load(ctx context.Context, name string, o edgewise.LoadOverride) error {
	return e.repositories.Load(ctx, name, o)
}

// Unload stops serving a model; one that is not known is not served. Of a model in the store alone, what nothing but it
// asked for is unloaded with it in any case.
func (e *engine) Unload(ctx context.Context, name string, dependents bool) error {
	return e.repositories.Unload(ctx, name, dependents)
}

// Statistics returns what was measured of the versions that id stands for.
func (e *engine) Statistics(id edgewise.ModelID) ([]kserve.VersionStatistics, error) {
	var list []kserve.VersionStatistics
	refusal := "requested model '%s' is not available"
	for _, s := range e.samples() {
		switch {
		case id.Name != "" && s.Version.ID.Name != id.Name:
		case id.Version != 0 && s.Version.ID.Version != id.Version:
			refusal = "requested model version is not available for model '%s'"
		default:
			list = append(list, kserve.VersionStatistics{ID: s.Version.ID, Statistics: s.Statistics})
		}
	}
	if len(list) == 0 && id.Name != "" {
		return nil, edgewise.Errorf("appliance.Statistics", edgewise.Invalid, refusal, id.Name)
	}
	return list, nil
}

// samples reads the statistics of every ready version.
func (e *engine) samples() []observe.Sample {
	var list []observe.Sample
	for _, status := range e.Statuses() {
		v, _, err := e.Version(status.ID)
		if err != nil {
			continue
		}
		if statistics, err := e.Manager.Statistics(status.ID); err == nil {
			e.Count(v, &statistics)
			list = append(list, observe.Sample{Version: v, Statistics: statistics})
		}
	}
	return list
}

package appliance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// engine is what the doors of the inference protocol see of the house.
type engine struct {
	*manager.Manager
	library *library
	watch   *watch
	first   edgewise.Inferer // what requests from outside come to; library.infer is the way of those from inside
	safe    func() bool      // whether models are left alone after crashes; nil: they never are
	strict  bool             // ready means that every wanted version is
	started atomic.Bool      // the stored wishes have been repeated
	ending  atomic.Bool      // the box is stopping
}

var (
	_ httpapi.Engine  = (*engine)(nil)
	_ httpapi.Library = (*library)(nil)
)

// Answer answers a request from outside, traces it where that is wanted, and counts it; see edgewise.Frontends.
func (e *engine) Answer(ctx context.Context, req *edgewise.Request, x edgewise.Exchange) (*edgewise.Response, error) {
	return e.watch.answer(ctx, req, x, frontends{e})
}

// Refuse counts a request from outside that could not be read, or may not run; see edgewise.Frontends.
func (e *engine) Refuse(ctx context.Context, id edgewise.ModelID, took time.Duration, err error) {
	e.watch.refuse(ctx, id, took, err)
}

// frontends is what requests from outside come to.
type frontends struct{ *engine }

// Infer answers a request. What repositories know of a model that the manager has never heard of is in the error.
func (o frontends) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	resp, err := o.first.Infer(ctx, req)
	if err != nil {
		return nil, o.library.sources.unheard(req.Model, err)
	}
	return resp, nil
}

// Version returns what a model is, and which of its versions are ready: of those that id names.
func (e *engine) Version(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error) {
	if v, ready, err = e.Manager.Version(id); err != nil {
		err = e.library.sources.unheard(id, err)
	}
	return v, ready, err
}

// Live tells whether the box works at all. A stopping box still does: it drains.
func (e *engine) Live() bool { return e.started.Load() && e.library.sources.initialized() }

// Ready tells whether requests should be sent here.
func (e *engine) Ready() bool {
	if e.safe != nil && e.safe() {
		return false
	}
	return e.Live() && !e.ending.Load() && (!e.strict || e.Manager.Ready() && e.library.sources.ready())
}

// VersionReady returns nil when requests to id are answered.
func (e *engine) VersionReady(id edgewise.ModelID) error {
	if _, _, err := e.Version(id); err != nil {
		return err
	}
	return e.Present(id)
}

// Index lists the status of every version that was asked for; of models that were not, the live version as unloaded,
// or the name alone when there is none.
func (e *engine) Index() []edgewise.Status {
	all := e.Statuses()
	known := map[string]bool{}
	for i := range all {
		s := &all[i]
		known[s.ID.Name] = true
		s.Health = e.watch.history.Health(s.ID)
		if s.State != edgewise.StateReady {
			continue
		}
		if measured, err := e.Manager.Statistics(s.ID); err == nil {
			s.Batching = measured.Batching
		}
	}
	all = append(all, e.library.sources.index(known)...)
	for _, r := range e.library.Records() {
		if known[r.Name] {
			continue
		}
		s := edgewise.Status{ID: edgewise.ModelID{Name: r.Name, Version: r.Label(edgewise.LiveLabel)}}
		if s.ID.Version != 0 {
			s.Reason = reasonUnloaded
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b edgewise.Status) int { return strings.Compare(a.ID.Name, b.ID.Name) })
	return all
}

// Load makes a model ready and waits for it.
func (e *engine) Load(ctx context.Context, name string, o edgewise.LoadOverride) error {
	s := e.library.sources
	if err := s.controllable(); err != nil {
		return err
	}
	switch {
	case s.enabled() && (s.has(name) || o.Files != nil || e.library.record(name) == nil):
		return failedLoad(name, s.load(ctx, name, change{config: o.Config, files: o.Files}))
	case o.Files != nil:
		return edgewise.Errorf("appliance.Load", edgewise.Unsupported, "model %q comes from no model repository, and versions in the store never change: push a new version with the files that it needs", name)
	case o.Config != nil:
		return e.library.Reconfigure(ctx, name, o.Config)
	}
	return failedLoad(name, e.library.Load(ctx, name))
}

// failedLoad gives the failure of a load the kind that clients of the protocol know: what is wrong with a model, or that
// there is none, is Invalid, in Triton's words. What the machine lacks, and what is our own fault, stays what it is.
func failedLoad(name string, err error) error {
	if err == nil {
		return nil
	}
	invalid := edgewise.Errorf("appliance.Load", edgewise.Invalid, "%w", err)
	switch edgewise.KindOf(err) {
	case edgewise.NotFound:
		if !strings.HasPrefix(err.Error(), "failed to load ") && !strings.HasPrefix(err.Error(), "load failed ") {
			invalid = edgewise.Errorf("appliance.Load", edgewise.Invalid, "failed to load '%s', failed to poll from model repository", name)
		}
	case edgewise.Unsupported, edgewise.Guest, edgewise.Corrupt, edgewise.TooLarge:
	default:
		return err
	}
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		invalid.Model, invalid.Limit = own.Model, own.Limit
	}
	return invalid
}

// Unload stops serving a model; one that is not known is not served. Of a model in the store alone, what nothing but it
// asked for is unloaded with it in any case.
func (e *engine) Unload(ctx context.Context, name string, dependents bool) error {
	s := e.library.sources
	if err := s.controllable(); err != nil {
		return err
	}
	if s.enabled() && (s.brought(name) != nil || e.library.record(name) == nil) {
		return s.unload(ctx, name, dependents)
	}
	if err := e.library.Unload(ctx, name); err != nil && edgewise.KindOf(err) != edgewise.NotFound {
		return err
	}
	return nil
}

// Statistics returns what was measured of the versions that id stands for.
func (e *engine) Statistics(id edgewise.ModelID) ([]httpapi.VersionStatistics, error) {
	var list []httpapi.VersionStatistics
	for _, s := range e.samples() {
		if (id.Name == "" || s.Version.ID.Name == id.Name) && (id.Version == 0 || s.Version.ID.Version == id.Version) {
			list = append(list, httpapi.VersionStatistics{ID: s.Version.ID, Statistics: s.Statistics})
		}
	}
	if len(list) == 0 && id.Name != "" {
		return nil, edgewise.Errorf("appliance.Statistics", edgewise.Invalid, "requested model '%s' is not available", id.Name)
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
			e.watch.counted(v, &statistics)
			list = append(list, observe.Sample{Version: v, Statistics: statistics})
		}
	}
	return list
}

package registry

import (
	"context"
	"errors"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// overrides are the configurations that stored versions have until they are loaded again as they are stored. They do
// not survive a restart. The zero value is empty.
type overrides struct {
	mu       sync.Mutex // guards what follows
	models   map[string]*edgewise.Version
	declared map[string]*edgewise.Model // what the configurations of models say by themselves
}

func (o *overrides) set(v *edgewise.Version, declared *edgewise.Model) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.models == nil {
		o.models, o.declared = map[string]*edgewise.Version{}, map[string]*edgewise.Model{}
	}
	o.models[v.ID.Name], o.declared[v.ID.Name] = v, declared
}

func (o *overrides) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.models, name)
	delete(o.declared, name)
}

// declaration returns what the configuration declares with which v was overridden; nil when v is as it is stored.
func (o *overrides) declaration(v *edgewise.Version) *edgewise.Model {
	o.mu.Lock()
	defer o.mu.Unlock()
	if changed := o.models[v.ID.Name]; changed == nil || changed.Model != v.Model {
		return nil
	}
	return o.declared[v.ID.Name]
}

// apply returns r with the version that is overridden in place of the stored one.
func (o *overrides) apply(r *edgewise.Record) *edgewise.Record {
	o.mu.Lock()
	v := o.models[r.Name]
	o.mu.Unlock()
	if v == nil || r.Version(v.ID.Version) == nil {
		return r
	}
	changed := *r
	changed.Versions = nil
	for _, stored := range r.Versions {
		if stored.ID.Version == v.ID.Version {
			stored = v
		}
		changed.Versions = append(changed.Versions, stored)
	}
	return &changed
}

// Reconfigure makes a model's live version ready with another configuration, given as JSON, and waits for it. What it
// was answers until then. Where nothing but instance_group differs nothing is loaded again. It holds until the next
// Load, Unload or restart. Errors: NotFound, Invalid, Unsupported for an ensemble.
func (g *Registry) Reconfigure(ctx context.Context, name string, config []byte) error {
	unlock, err := g.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := g.reconfigure(ctx, name, config); err != nil {
		return err
	}
	failure := g.manager.Settle(ctx, name)
	if failure != nil {
		g.overrides.forget(name)
		return errors.Join(failure, g.refresh(name))
	}
	return nil
}

func (g *Registry) reconfigure(ctx context.Context, name string, config []byte) error {
	const op = "registry.Reconfigure"
	record, err := g.store.Record(name)
	if err != nil {
		return err
	}
	v := record.Version(record.Label(edgewise.LiveLabel))
	if v == nil {
		return edgewise.Errorf(op, edgewise.NotFound, "model %q has no live version to configure", name)
	}
	if ensemble.Is(v.Model) {
		return edgewise.Errorf(op,
			edgewise.Unsupported, "model %v is an ensemble, pinned to what it runs: push a new version with the configuration it needs", v.ID)
	}
	dir, err := g.store.Dir(v.ID)
	if err != nil {
		return err
	}
	declared, err := modelconfig.Parse("config.json", config)
	if err != nil {
		return err
	}
	m, err := g.completed(ctx, declared, name, dir, v.Paths())
	if err != nil {
		return err
	}
	changed := *v
	changed.Model = m
	g.overrides.set(&changed, declared)
	g.logger.Info("configuration changed", "model", v.ID.String(), "instances", m.Instances())
	return g.setDesired(ctx, name, true)
}

package registry

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// Beside loads a stored version with another configuration beside what serves, for the caller alone, who closes it. It has
// no response cache. Errors: NotFound, those of Configured and of manager.Beside.
func (g *Registry) Beside(ctx context.Context, id edgewise.ModelID, declared *edgewise.Model) (*manager.Beside, error) {
	v, err := g.version("registry.Beside", id)
	if err != nil {
		return nil, err
	}
	m, err := g.Configured(ctx, id, declared)
	if err != nil {
		return nil, err
	}
	uncached, tried := *m, *v
	uncached.ResponseCache = nil
	tried.Model = &uncached
	g.besides.Store(&tried, declared)
	defer g.besides.Delete(&tried)
	return g.manager.Beside(ctx, &tried)
}

// declaration returns what the configuration declares with which v is loaded; nil when v is as it is stored.
func (g *Registry) declaration(v *edgewise.Version) *edgewise.Model {
	if declared, ok := g.besides.Load(v); ok {
		return declared.(*edgewise.Model)
	}
	return g.overrides.declaration(v)
}

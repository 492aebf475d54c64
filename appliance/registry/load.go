package registry

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// LoadVersion makes a stored version ready to serve. The files of one that a repository brought stay until it is
// closed.
func (g *Registry) LoadVersion(ctx context.Context, v *edgewise.Version) (*manager.Loaded, error) {
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	if g.config.Loading != nil {
		defer g.config.Loading(v.ID)()
	}
	if v.Stored == 0 {
		return g.loadFrom(ctx, v, dir)
	}
	g.opened(v)
	loaded, err := g.loadFrom(ctx, v, dir)
	if err != nil {
		g.closed(v)
		return nil, err
	}
	loaded.OnClose = append(loaded.OnClose, func() { g.closed(v) })
	return loaded, nil
}

// loadFrom loads a version whose files stand in dir. The manager has loaded the parts of an ensemble.
func (g *Registry) loadFrom(ctx context.Context, v *edgewise.Version, dir string) (loaded *manager.Loaded, err error) {
	if ensemble.Is(v.Model) {
		parts, err := ensemble.Parts(v.Model, g.Lookup)
		if err != nil {
			return nil, err
		}
		loaded, err = g.config.Serving.LoadEnsemble(v, parts)
		if err != nil {
			return nil, err
		}
	} else if loaded, err = g.config.Serving.Load(ctx, v, dir, g.overrides.declaration(v)); err != nil {
		return nil, err
	}
	g.withClasses(loaded, v, dir)
	return loaded, nil
}

// Footprint estimates what a version takes while it is loaded, and whether it may take the place of its predecessor.
func (g *Registry) Footprint(ctx context.Context, v *edgewise.Version) (manager.Footprint, error) {
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return manager.Footprint{}, err
	}
	return g.config.Serving.Footprint(ctx, v, dir)
}

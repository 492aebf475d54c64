package appliance

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// load makes a stored version ready to serve. The files of one that a repository brought stay until it is closed.
func (l *library) load(ctx context.Context, v *edgewise.Version) (*manager.Loaded, error) {
	dir, err := l.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	if l.loading != nil {
		defer l.loading(v.ID)()
	}
	if v.Stored == 0 {
		return l.loadFrom(ctx, v, dir)
	}
	l.sources.opened(v)
	loaded, err := l.loadFrom(ctx, v, dir)
	if err != nil {
		l.sources.closed(v)
		return nil, err
	}
	loaded.OnClose = append(loaded.OnClose, func() { l.sources.closed(v) })
	return loaded, nil
}

// loadFrom loads a version whose files stand in dir. The manager has loaded the parts of an ensemble.
func (l *library) loadFrom(ctx context.Context, v *edgewise.Version, dir string) (loaded *manager.Loaded, err error) {
	if isEnsemble(v.Model) {
		parts, err := ensemble.Parts(v.Model, l.record)
		if err != nil {
			return nil, err
		}
		loaded, err = l.serving.LoadEnsemble(v, parts)
		if err != nil {
			return nil, err
		}
	} else if loaded, err = l.serving.Load(ctx, v, dir, l.groups.declaration(v)); err != nil {
		return nil, err
	}
	l.withLabels(loaded, v, dir)
	return loaded, nil
}

// footprint estimates what a version takes while it is loaded, and whether it may take the place of its predecessor.
func (l *library) footprint(ctx context.Context, v *edgewise.Version) (manager.Footprint, error) {
	dir, err := l.store.Dir(v.StoredID())
	if err != nil {
		return manager.Footprint{}, err
	}
	return l.serving.Footprint(ctx, v, dir)
}

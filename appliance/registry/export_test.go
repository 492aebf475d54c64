package registry

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// ReadLabels is readLabels.
var ReadLabels = readLabels

// CheckSums is checkSums.
var CheckSums = checkSums

// LockUsers is how many callers hold or wait for the lock of a model.
func (g *Registry) LockUsers(name string) int {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	if n := g.locks.held[name]; n != nil {
		return n.users
	}
	return 0
}

// Locks is how many names are locked or waited for.
func (g *Registry) Locks() int {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	return len(g.locks.held)
}

// CachedClasses is how many versions have the names of their classes in memory.
func (g *Registry) CachedClasses() int {
	n := 0
	g.classes.versions.Range(func(any, any) bool { n++; return true })
	return n
}

// Runs tells whether an ensemble runs a model, itself or through others.
func (g *Registry) Runs(v *edgewise.Version, name string) bool { return g.runs(v, name) }

// The bounds of a label file.
const (
	MaxLabelBytes = maxLabelBytes
	MaxLabelLines = maxLabelLines
)

// SetLabelLocked is SetLabel for a caller that holds the model's lock.
func (g *Registry) SetLabelLocked(ctx context.Context, name, label string, version int64) (admin.LabelMove, error) {
	return g.setLabel(ctx, name, label, version)
}

// AddFailed notes that a version failed to load.
func (g *Registry) AddFailed(id edgewise.ModelID, cause error) { g.failed.add(id, cause) }

// FailedVersions lists the versions of a model that failed to load.
func (g *Registry) FailedVersions(name string) ([]edgewise.ModelID, error) {
	return g.failed.notes.Versions(name)
}

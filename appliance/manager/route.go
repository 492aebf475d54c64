package manager

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// table leads from a model's name to what answers for it. It is built whole whenever something changes and read
// without a lock.
type table map[string]*route

// route is one model in the table.
type route struct {
	serving  *target
	versions map[int64]*target
	stored   []int64
	replaced bool      // one version is loading in the place of the others
	draining []*target // versions that are to be unloaded and still answer the sequences that they have begun
}

// target is one version in the table. handle is nil when it is not ready.
type target struct {
	version *edgewise.Version
	handle  *handle
	status  edgewise.Status
	split   *split // of the version that serves, while another one gets a share of its requests
}

// Infer hands a request to the version it names, or to the one that serves when it names none, or to the one beside it
// that gets a share of its requests. One that continues a sequence goes to the version that the sequence has begun
// with, as long as that is there. An error names the version that the request came to, once there is one.
func (m *Manager) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	h, err := m.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	defer h.release()
	resp, err := h.loaded.Infer(ctx, req)
	if err != nil {
		return nil, edgewise.About(h.id, err)
	}
	return resp, nil
}

// enter returns the handle of the version that a request comes to, in use as that of acquire is.
func (m *Manager) enter(ctx context.Context, req *edgewise.Request) (*handle, error) {
	if h := m.continuing(req); h != nil {
		return h, nil
	}
	for {
		t, err := m.target(ctx, req)
		if err != nil {
			return nil, err
		}
		if t.handle.acquire() {
			return t.handle, nil
		}
	}
}

// Resolve returns the version that id stands for, whether or not it is ready; the version is 0 when none serves. ok is
// false when there is no such model or version.
func (m *Manager) Resolve(id edgewise.ModelID) (resolved edgewise.ModelID, ok bool) {
	r := (*m.routes.Load())[id.Name]
	if r == nil || id.Version != 0 && !slices.Contains(r.stored, id.Version) {
		return edgewise.ModelID{}, false
	}
	if id.Version == 0 && r.serving != nil {
		id.Version = r.serving.version.ID.Version
	}
	return id, true
}

// AllocBody returns n bytes for inputs of a later request to id; nil when none are free. The request may still run
// elsewhere.
func (m *Manager) AllocBody(id edgewise.ModelID, n int) (data []byte, free func()) {
	h, err := m.acquire(id)
	if err != nil {
		return nil, nil
	}
	defer h.release()
	if h.loaded.Borrow == nil {
		return nil, nil
	}
	return h.loaded.Borrow(n)
}

// acquire returns a handle in use; the caller releases it. A handle that was retired since the table was read means
// that a newer table is there.
func (m *Manager) acquire(id edgewise.ModelID) (*handle, error) {
	for {
		t, err := m.find(id)
		if err != nil {
			return nil, err
		}
		if t.handle.acquire() {
			return t.handle, nil
		}
	}
}

// find returns the ready version that id stands for. Its messages are Triton's.
func (m *Manager) find(id edgewise.ModelID) (*target, error) {
	r := (*m.routes.Load())[id.Name]
	switch {
	case r == nil:
		return nil, lookupError(edgewise.NotFound, id, "Request for unknown model: '%s' is not found", id.Name)
	case id.Version == 0 && r.serving == nil && r.replaced:
		return nil, lookupError(edgewise.Unavailable, id, "model '%s' is not available for a moment: a version takes the "+
			"place of another, and there is too little memory for both", id.Name)
	case id.Version == 0 && r.serving == nil:
		if s, ok := r.fallen(); ok {
			return nil, lookupError(edgewise.Unavailable, id, "Request for unknown model: '%s' has no available versions: "+
				"version %d: %s", id.Name, s.ID.Version, s.Reason)
		}
		return nil, lookupError(edgewise.NotFound, id, "Request for unknown model: '%s' has no available versions", id.Name)
	case id.Version == 0:
		return r.serving, nil
	case !slices.Contains(r.stored, id.Version):
		return nil, lookupError(edgewise.NotFound, id, "Request for unknown model: '%s' version %d is not found", id.Name,
			id.Version)
	}
	t := r.versions[id.Version]
	if t != nil && t.status.Fallen {
		return nil, lookupError(edgewise.Unavailable, id, "Request for unknown model: '%s' version %d is not at ready "+
			"state: %s", id.Name, id.Version, t.status.Reason)
	}
	if t == nil || t.handle == nil {
		return nil, lookupError(edgewise.Unavailable, id, "Request for unknown model: '%s' version %d is not at ready state",
			id.Name, id.Version)
	}
	return t, nil
}

func lookupError(kind edgewise.Kind, id edgewise.ModelID, format string, args ...any) error {
	err := edgewise.Errorf("manager.find", kind, format, args...)
	err.Model = id
	return err
}

// Version returns the ready version that id stands for, and the numbers of the ready versions that were asked about,
// ascending: all of the model, or the one that id names. Errors: NotFound, Unavailable.
func (m *Manager) Version(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error) {
	t, err := m.find(id)
	if err != nil {
		return nil, nil, err
	}
	if id.Version != 0 {
		return t.version, []int64{id.Version}, nil
	}
	for number, other := range (*m.routes.Load())[id.Name].versions {
		if other.handle != nil {
			ready = append(ready, number)
		}
	}
	slices.Sort(ready)
	return t.version, ready, nil
}

// Statistics returns what the ready version that id stands for has measured. Errors: NotFound, Unavailable.
func (m *Manager) Statistics(id edgewise.ModelID) (edgewise.Statistics, error) {
	h, err := m.acquire(id)
	if err != nil {
		return edgewise.Statistics{}, err
	}
	defer h.release()
	return h.loaded.Statistics(), nil
}

// Independent tells whether the rows of a ready version's batches do not depend on each other. An ensemble, which has no
// batcher, counts as independent: its author declares whether it has a batch dimension.
func (m *Manager) Independent(id edgewise.ModelID) bool {
	measured, err := m.Statistics(id)
	return err == nil && (measured.Batching == nil || measured.Batching.Independent)
}

// Statuses returns where every version stands that was asked for, by name and number.
func (m *Manager) Statuses() []edgewise.Status {
	var all []edgewise.Status
	for _, r := range *m.routes.Load() {
		for _, t := range r.versions {
			all = append(all, t.status)
		}
	}
	slices.SortFunc(all, func(a, b edgewise.Status) int {
		if c := strings.Compare(a.ID.Name, b.ID.Name); c != 0 {
			return c
		}
		return cmp.Compare(a.ID.Version, b.ID.Version)
	})
	return all
}

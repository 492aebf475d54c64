package repository

import (
	"context"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// unload stops serving a model. The ensembles that run it stop too, and come back with it. With dependents, what was
// loaded only because this model runs it goes as well. A model that is not loaded is left as it is.
func (s *Repositories) unload(ctx context.Context, name string, dependents bool) error {
	for _, user := range s.users(name, func(m *source) bool { return m.wanted }) {
		if err := s.drop(ctx, user, true); err != nil {
			return err
		}
	}
	m := s.brought(name)
	if err := s.drop(ctx, name, false); err != nil || m == nil || !dependents {
		return err
	}
	for _, step := range m.steps {
		part := s.brought(step)
		if part == nil || !s.loadedForOthers(part) || len(s.users(step, func(m *source) bool { return m.wanted })) > 0 {
			continue
		}
		if err := s.unload(ctx, step, true); err != nil {
			return err
		}
	}
	return nil
}

func (s *Repositories) loadedForOthers(m *source) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.wanted && !m.asked
}

// drop takes one model out of service. stopped: it comes back when what it runs does.
func (s *Repositories) drop(ctx context.Context, name string, stopped bool) error {
	if stopped { // what runs it cannot go on either
		for _, user := range s.users(name, func(m *source) bool { return m.wanted }) {
			if err := s.drop(ctx, user, true); err != nil {
				return err
			}
		}
	}
	unlock, err := s.registry.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	m := s.models[name]
	if m == nil || !m.wanted {
		if m != nil && !stopped {
			m.stopped = false
		}
		s.mu.Unlock()
		return nil
	}
	next := &source{versions: m.versions, stamps: m.stamps, steps: m.steps, stopped: stopped}
	for number := range m.versions {
		next.states = append(next.states, unloaded(edgewise.ModelID{Name: name, Version: number}))
	}
	if len(m.versions) == 0 { // it never loaded
		for _, st := range m.states {
			next.states = append(next.states, unloaded(st.ID))
		}
	}
	slices.SortFunc(next.states, func(a, b edgewise.Status) int { return int(min(max(a.ID.Version-b.ID.Version, -1), 1)) })
	s.models[name] = next
	r := next.record(name)
	s.mu.Unlock()
	s.registry.Serve(r)
	return nil
}

func unloaded(id edgewise.ModelID) edgewise.Status {
	return edgewise.Status{ID: id, Reason: reasonUnloaded}
}

// reasonUnloaded is what the index says of a version that a client has unloaded.
const reasonUnloaded = "unloaded"

// forget drops a model whose folder has gone, with what was stored of it.
func (s *Repositories) forget(ctx context.Context, name string) error {
	if err := s.unload(ctx, name, false); err != nil {
		return err
	}
	unlock, err := s.registry.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	delete(s.models, name)
	s.mu.Unlock()
	s.registry.Withdraw(name)
	return nil
}

// index completes what the manager says by what only the repositories know: models that were never loaded, by name
// alone, and versions that were refused before they could be loaded.
func (s *Repositories) index(known map[string]bool) []edgewise.Status {
	var list []edgewise.Status
	found, err := s.folders("")
	if err != nil {
		s.logger.Error("a model repository cannot be read", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.models {
		if !known[name] && (m.wanted || len(found[name]) < 2) {
			known[name] = true
			list = append(list, m.states...)
		}
	}
	for name, folders := range found {
		switch {
		case len(folders) > 1 && !known[name]:
			list = append(list, edgewise.Status{ID: edgewise.ModelID{Name: name}, Reason: duplicateReason})
		case !known[name]:
			list = append(list, edgewise.Status{ID: edgewise.ModelID{Name: name}})
		}
		known[name] = true
	}
	return list
}

// Explain completes the error of the manager about a model that it does not know: a repository may have brought one
// that was refused before the manager was told of it. The messages are Triton's.
func (s *Repositories) Explain(id edgewise.ModelID, err error) error {
	if edgewise.KindOf(err) != edgewise.NotFound {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[id.Name]
	if m == nil || len(m.versions) > 0 {
		return err
	}
	known := edgewise.Errorf("repository.Explain", edgewise.NotFound,
		"Request for unknown model: '%s' has no available versions", id.Name)
	if id.Version != 0 {
		if !slices.ContainsFunc(m.states, func(st edgewise.Status) bool { return st.ID == id }) {
			return err
		}
		known = edgewise.Errorf("repository.Explain", edgewise.Unavailable,
			"Request for unknown model: '%s' version %d is not at ready state", id.Name, id.Version)
	}
	known.Model = id
	return known
}

// Loaded tells whether what is wanted from the beginning has been loaded, or has failed to.
func (s *Repositories) Loaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.loading
}

// Ready tells whether every model that is wanted could be brought.
func (s *Repositories) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		if m.wanted && len(m.states) > 0 {
			return false
		}
	}
	return !s.loading
}

package repository

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Load makes a model ready and waits for it: as its folder says, or else as it is stored, or as o says for this load
// alone. Errors: Unavailable (clients do not control what is loaded), Unsupported, and why the load failed: Invalid,
// in Triton's words, for what is wrong with the model.
func (s *Repositories) Load(ctx context.Context, name string, o edgewise.LoadOverride) error {
	if err := s.controllable(); err != nil {
		return err
	}
	if s.enabled() {
		_ = s.refresh(ctx) // it has told of what cannot be read: what was seen last is loaded
	}
	switch {
	case s.enabled() && (s.has(name) || o.Files != nil || s.registry.Lookup(name) == nil):
		return failedLoad(name, s.load(ctx, name, change{config: o.Config, files: o.Files}))
	case o.Files != nil:
		return edgewise.Errorf("repository.Load", edgewise.Unsupported,
			"model %q comes from no model repository, and versions in the store never change: push a new version with the files that it needs",
			name)
	case o.Config != nil:
		return s.registry.Reconfigure(ctx, name, o.Config)
	}
	return failedLoad(name, s.registry.Load(ctx, name))
}

// failedLoad gives the failure of a load the kind that clients of the protocol know: what is wrong with a model, or
// that there is none, is Invalid, in Triton's words. What the machine lacks, and what is our own fault, stays what it
// is.
func failedLoad(name string, err error) error {
	if err == nil {
		return nil
	}
	invalid := edgewise.Errorf("repository.Load", edgewise.Invalid, "%w", err)
	switch edgewise.KindOf(err) {
	case edgewise.NotFound:
		if !strings.HasPrefix(err.Error(), "failed to load ") && !strings.HasPrefix(err.Error(), "load failed ") {
			invalid = edgewise.Errorf("repository.Load", edgewise.Invalid,
				"failed to load '%s', failed to poll from model repository", name)
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
func (s *Repositories) Unload(ctx context.Context, name string, dependents bool) error {
	if err := s.controllable(); err != nil {
		return err
	}
	if s.enabled() && (s.brought(name) != nil || s.registry.Lookup(name) == nil) {
		defer s.prune()
		return s.unload(ctx, name, dependents)
	}
	if err := s.registry.Unload(ctx, name); err != nil && edgewise.KindOf(err) != edgewise.NotFound {
		return err
	}
	return nil
}

// Index completes the statuses of versions that were asked for by the models that were not: the live version as
// unloaded, or the name alone when there is none. It sorts them by name.
func (s *Repositories) Index(all []edgewise.Status) []edgewise.Status {
	known := map[string]bool{}
	for i := range all {
		known[all[i].ID.Name] = true
	}
	all = append(all, s.index(known)...)
	for _, r := range s.registry.Records() {
		if known[r.Name] {
			continue
		}
		st := edgewise.Status{ID: edgewise.ModelID{Name: r.Name, Version: r.Label(edgewise.LiveLabel)}}
		if st.ID.Version != 0 {
			st.Reason = reasonUnloaded
		}
		all = append(all, st)
	}
	slices.SortStableFunc(all, func(a, b edgewise.Status) int { return strings.Compare(a.ID.Name, b.ID.Name) })
	return all
}

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
	if len(s.gone) == maxGone {
		clear(s.gone)
	}
	s.gone[name] = true
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
// that was refused before the manager was told of it, or one whose folder has gone. The messages are Triton's.
func (s *Repositories) Explain(id edgewise.ModelID, err error) error {
	if edgewise.KindOf(err) != edgewise.NotFound {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[id.Name]
	if m == nil && id.Version == 0 && s.gone[id.Name] {
		m = &source{}
	}
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

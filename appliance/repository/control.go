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

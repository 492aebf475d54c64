package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/store"
)

// pinsLock is held while an ensemble is pinned and stored, and while a version is deleted that one could pin. It is no
// name that a model can have. Who also holds a model's lock has taken that first.
const pinsLock = "(ensembles)"

// putEnsemble pins what an ensemble runs, checks the graph against that, and stores the version. What it is pinned to
// is part of the declaration, so the version's digest covers the whole pipeline. declared is what is wrong with the
// declaration already; the error reports it with everything else.
func (g *Registry) putEnsemble(
	ctx context.Context, staging *store.Staging, v edgewise.Version, declared error,
) (*edgewise.Version, error) {
	unlock, err := g.Lock(ctx, pinsLock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	pinned, _, err := ensemble.Pin(v.Model, g.Lookup)
	if err := errors.Join(declared, err); err != nil {
		return nil, err
	}
	v.Model = pinned
	return g.store.Put(ctx, staging, v)
}

// CheckEnsemble reports everything that is wrong with an ensemble. Steps that run one of the models beside are compared
// with nothing: these are to be stored before the ensemble.
func (g *Registry) CheckEnsemble(m *edgewise.Model, beside []string) error {
	if slices.ContainsFunc(ensemble.StepModels(m), func(name string) bool { return slices.Contains(beside, name) }) {
		return ensemble.Validate(m, make([]*edgewise.Model, len(m.EnsembleScheduling.Step)))
	}
	_, _, err := ensemble.Pin(m, g.Lookup)
	return err
}

// unpinned makes a change, unless a stored ensemble pins the version, or any version when id names none. done is what
// the version is then.
func (g *Registry) unpinned(ctx context.Context, id edgewise.ModelID, done string, change func() error) error {
	unlock, err := g.Lock(ctx, pinsLock)
	if err != nil {
		return err
	}
	defer unlock()
	var users []edgewise.ModelID
	for _, r := range g.Records() {
		for _, v := range r.Versions {
			for _, pin := range v.Model.Pins() {
				if pin.Name == id.Name && (id.Version == 0 || pin.Version == id.Version) {
					users = append(users, v.ID)
				}
			}
		}
	}
	if len(users) > 0 {
		return edgewise.Errorf("registry.unpinned", edgewise.Conflict,
			"model %v cannot be %s while an ensemble pins it: %s: delete that first", id, done, listed(users))
	}
	return change()
}

// servedEnsembles lists the ensemble versions that ought to be served and run a model, themselves or through others.
func (g *Registry) servedEnsembles(name string) []edgewise.ModelID {
	var users []edgewise.ModelID
	for _, r := range g.Records() {
		aspired, _ := manager.Aspired(r)
		for _, number := range aspired {
			if v := r.Version(number); g.runs(v, name) {
				users = append(users, v.ID)
			}
		}
	}
	return users
}

// runs tells whether an ensemble runs a model, itself or through others.
func (g *Registry) runs(v *edgewise.Version, name string) bool {
	seen := map[edgewise.ModelID]bool{}
	for left := []*edgewise.Version{v}; len(left) > 0; {
		v, left = left[len(left)-1], left[:len(left)-1]
		if v == nil || seen[v.ID] {
			continue
		}
		seen[v.ID] = true
		for _, pin := range v.Model.Pins() {
			if pin.Name == name {
				return true
			}
			if r := g.Lookup(pin.Name); r != nil {
				left = append(left, r.Version(pin.Version))
			}
		}
	}
	return false
}

// maxListed bounds how many versions a message lists.
const maxListed = 8

func listed(ids []edgewise.ModelID) string {
	var names []string
	for _, id := range ids[:min(len(ids), maxListed)] {
		names = append(names, id.String())
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// partOutput finds which output of which part makes an output of an ensemble; "" when none does.
func partOutput(m *edgewise.Model, output string) (id edgewise.ModelID, name string) {
	if m.EnsembleScheduling == nil {
		return id, ""
	}
	for _, s := range m.EnsembleScheduling.Step {
		for from, to := range s.OutputMap {
			if to == output && s.Pinned != nil {
				return edgewise.ModelID{Name: s.ModelName, Version: s.Pinned.Version}, from
			}
		}
	}
	return id, ""
}

// Dependants lists the versions of ensembles that run a version, themselves or through others, in the order in which
// they can be deleted. Version 0 stands for all of the model.
func (g *Registry) Dependants(id edgewise.ModelID) []edgewise.ModelID {
	var found []edgewise.ModelID
	seen := map[edgewise.ModelID]bool{}
	var visit func(id edgewise.ModelID)
	visit = func(id edgewise.ModelID) {
		for _, r := range g.Records() {
			for _, v := range r.Versions {
				pinned := slices.ContainsFunc(v.Model.Pins(), func(pin edgewise.ModelID) bool {
					return pin.Name == id.Name && (id.Version == 0 || pin.Version == id.Version)
				})
				if pinned && !seen[v.ID] {
					seen[v.ID] = true
					visit(v.ID)
					found = append(found, v.ID)
				}
			}
		}
	}
	visit(id)
	return found
}

// DeleteDependants deletes the Dependants of a version: a model whose versions all go is deleted whole; of others the
// labels that point to them are moved to the highest version that stays. Those that another caller deletes meanwhile
// are passed over.
func (g *Registry) DeleteDependants(ctx context.Context, id edgewise.ModelID) error {
	going := g.Dependants(id)
	for _, v := range going {
		if err := g.deleteDependant(ctx, v, going); err != nil {
			return err
		}
	}
	return nil
}

// deleteDependant deletes one of the versions that are going, which is in no version that stays.
func (g *Registry) deleteDependant(ctx context.Context, id edgewise.ModelID, going []edgewise.ModelID) error {
	unlock, err := g.lockStored(ctx, "registry.DeleteDependants", id.Name)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := g.store.Record(id.Name)
	switch {
	case err != nil && edgewise.KindOf(err) != edgewise.NotFound:
		return err
	case err != nil || r.Version(id.Version) == nil:
		return nil
	case len(r.Versions) == 1:
		return g.deleteModel(ctx, id.Name)
	}
	highest := int64(0) // of the versions that stay
	for _, v := range r.Versions {
		if !slices.Contains(going, v.ID) {
			highest = v.ID.Version
		}
	}
	for _, l := range r.Labels {
		if l.Version != id.Version {
			continue
		}
		if l.Name == edgewise.LiveLabel && highest != 0 {
			_, err = g.setLabel(admin.WithCause(ctx, admin.CauseRemove), id.Name, l.Name, highest)
		} else {
			err = g.removeLabel(ctx, id.Name, l.Name)
		}
		if err != nil {
			return err
		}
	}
	return g.deleteVersion(ctx, id)
}

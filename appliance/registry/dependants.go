package registry

import (
	"context"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

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
// labels that point to them are moved to the highest version that stays.
func (g *Registry) DeleteDependants(ctx context.Context, id edgewise.ModelID) error {
	for _, v := range g.Dependants(id) {
		r := g.Lookup(v.Name)
		if r == nil {
			continue
		}
		if len(r.Versions) == 1 {
			if err := g.DeleteModel(ctx, v.Name); err != nil {
				return err
			}
			continue
		}
		if err := g.unlabel(ctx, r, v); err != nil {
			return err
		}
		if err := g.DeleteVersion(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// unlabel takes the labels off a version that is to be deleted.
func (g *Registry) unlabel(ctx context.Context, r *edgewise.Record, id edgewise.ModelID) error {
	highest := int64(0)
	for _, v := range r.Versions {
		if v.ID != id {
			highest = v.ID.Version
		}
	}
	for _, l := range r.Labels {
		if l.Version != id.Version {
			continue
		}
		if l.Name != edgewise.LiveLabel {
			if err := g.RemoveLabel(ctx, id.Name, l.Name); err != nil {
				return err
			}
			continue
		}
		if _, err := g.SetLabel(admin.WithCause(ctx, admin.CauseRemove), id.Name, l.Name, highest); err != nil {
			return err
		}
	}
	return nil
}

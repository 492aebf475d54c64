package tune

import (
	"context"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// partsOf returns the versions whose configurations are searched: of an ensemble those that it runs, each once, otherwise
// the version itself. Errors: Conflict where one is not stored any more.
func (t *Tuner) partsOf(v *edgewise.Version) ([]*edgewise.Version, error) {
	if v.Model.EnsembleScheduling == nil {
		return []*edgewise.Version{v}, nil
	}
	var list []*edgewise.Version
	for _, id := range v.Model.Pins() {
		record, err := t.config.Models.Record(id.Name)
		if err != nil {
			return nil, err
		}
		pinned := record.Version(id.Version)
		if pinned == nil {
			return nil, edgewise.Errorf("tune.partsOf", edgewise.Conflict, "ensemble %v runs %v, which is not stored", v.ID, id)
		}
		list = append(list, pinned)
	}
	return list, nil
}

// machine describes what a version runs on: of an ensemble all of its models together.
func (t *Tuner) machine(v *edgewise.Version) (list []string) {
	parts, err := t.partsOf(v)
	if err != nil {
		parts = []*edgewise.Version{v}
	}
	for _, p := range parts {
		format, _ := t.config.Formats.Of(p.Model)
		for _, one := range t.config.Machine(format) {
			if !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
	}
	return list
}

// mayChange says why a caller may not have an ensemble tuned, which makes versions of the models of its steps.
func (t *Tuner) mayChange(ctx context.Context, op string, v *edgewise.Version) error {
	if v.Model.EnsembleScheduling == nil {
		return nil
	}
	caller := edgewise.PrincipalOf(ctx)
	for _, id := range v.Model.Pins() {
		if caller != nil && !caller.MayName(id.Name) {
			return edgewise.Errorf(op, edgewise.Denied, "%s may not change model %q, which a step of ensemble %q runs",
				caller.Actor(), id.Name, v.ID.Name)
		}
		if err := t.config.Models.Changeable(op, id.Name); err != nil {
			return err
		}
	}
	return nil
}

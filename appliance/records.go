package appliance

import (
	"context"
	"fmt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/proposal"
)

// Records returns everything that is stored, by model name.
func (l *library) Records() []*edgewise.Record {
	var list []*edgewise.Record
	for _, r := range l.store.Records() {
		if r = l.sources.record(r.Name, r); r != nil && len(r.Versions) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// Record returns what is stored about one model.
func (l *library) Record(name string) (*edgewise.Record, error) {
	r, err := l.store.Record(name)
	if err != nil {
		return nil, err
	}
	if r = l.sources.record(name, r); len(r.Versions) == 0 {
		return nil, edgewise.Errorf("appliance.Record", edgewise.NotFound, "there is no model %q", name)
	}
	return r, nil
}

// Inspect reads a stored version's files.
func (l *library) Inspect(ctx context.Context, id edgewise.ModelID) (*edgewise.Inspection, error) {
	record, err := l.Record(id.Name)
	if err != nil {
		return nil, err
	}
	v := record.Version(id.Version)
	if v == nil {
		return nil, edgewise.Errorf("appliance.Inspect", edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
	}
	return l.inspectVersion(ctx, v)
}

// Propose returns pipelines that a version may be meant for.
func (l *library) Propose(id edgewise.ModelID) ([]admin.Proposal, error) {
	r, err := l.Record(id.Name)
	if err != nil {
		return nil, err
	}
	v := r.Version(id.Version)
	if v == nil {
		return nil, edgewise.Errorf("appliance.Propose", edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
	}
	return proposal.For(v.Model), nil
}

func (l *library) inspectVersion(ctx context.Context, v *edgewise.Version) (*edgewise.Inspection, error) {
	if isEnsemble(v.Model) {
		return declaredInspection(v.Model), nil
	}
	dir, err := l.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	inspection, err := l.inspect(ctx, dir, v.Model)
	if err != nil {
		return nil, fmt.Errorf("model %v: %w", v.ID, err)
	}
	return inspection, nil
}

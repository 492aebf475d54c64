package registry

import (
	"context"
	"fmt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/proposal"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// Records returns everything that is stored, by model name.
func (g *Registry) Records() []*edgewise.Record {
	var list []*edgewise.Record
	for _, r := range g.store.Records() {
		if r = g.imported.record(r.Name, r); r != nil && len(r.Versions) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// Record returns what is stored about one model. Error: NotFound.
func (g *Registry) Record(name string) (*edgewise.Record, error) {
	r, err := g.store.Record(name)
	if err != nil {
		return nil, err
	}
	if r = g.imported.record(name, r); len(r.Versions) == 0 {
		return nil, edgewise.Errorf("registry.Record", edgewise.NotFound, "there is no model %q", name)
	}
	return r, nil
}

// Lookup returns what is stored about a model, nil when nothing is. What it returns is shared and not modified.
func (g *Registry) Lookup(name string) *edgewise.Record {
	r, err := g.store.Record(name)
	if err != nil {
		r = nil
	}
	return g.imported.record(name, r)
}

// Inspect reads a stored version's files. Of a model of another program's backend the declaration says what it takes and
// answers.
func (g *Registry) Inspect(ctx context.Context, id edgewise.ModelID) (*edgewise.Inspection, error) {
	v, err := g.version("registry.Inspect", id)
	if err != nil {
		return nil, err
	}
	if ensemble.Is(v.Model) {
		return ensemble.Inspection(v.Model), nil
	}
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	inspection, err := g.InspectFolder(ctx, dir, v.Model)
	if err != nil {
		return nil, fmt.Errorf("model %v: %w", v.ID, err)
	}
	if inspection.Backend != "" {
		inspection.Inputs, inspection.Outputs = v.Model.Tensors() // its declaration has been completed
	}
	return inspection, nil
}

// version returns a stored version. Error: NotFound.
func (g *Registry) version(op string, id edgewise.ModelID) (*edgewise.Version, error) {
	r, err := g.Record(id.Name)
	if err != nil {
		return nil, err
	}
	if v := r.Version(id.Version); v != nil {
		return v, nil
	}
	return nil, edgewise.Errorf(op, edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
}

// Propose returns pipelines that a version may be meant for.
func (g *Registry) Propose(ctx context.Context, id edgewise.ModelID) ([]admin.Proposal, error) {
	v, err := g.version("registry.Propose", id)
	if err != nil {
		return nil, err
	}
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	inspection, err := g.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	return proposal.For(v.Model, g.config.Serving.Defaults().Formats, proposal.Read(dir, v.Model, inspection)), nil
}

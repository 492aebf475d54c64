package registry

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/store"
)

// Rename gives a model another name. Its versions keep their numbers, and its labels their versions. The model goes on
// answering under the old name until it is ready under the new one, unless there is too little memory for both. Errors:
// NotFound, Invalid, Exists, Conflict for a model that an ensemble pins or that a model repository has brought; that of
// the load, when the model has its new name and is not ready.
func (g *Registry) Rename(ctx context.Context, name, to string) error {
	const op = "registry.Rename"
	if name == to {
		return edgewise.Errorf(op, edgewise.Invalid, "model %q has that name already", name).WithField("name")
	}
	for _, n := range slices.Sorted(slices.Values([]string{name, to})) { // in one order: two may swap names
		unlock, err := g.lockStored(ctx, op, n)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if g.Lookup(to) != nil {
		return edgewise.Errorf(op, edgewise.Exists, "model %q exists already", to).WithField("name")
	}
	if g.manager.SplitOf(name) != (manager.Split{}) {
		return edgewise.Errorf(op, edgewise.Conflict, "model %q cannot be renamed while it has a rollout: stop that first", name)
	}
	err := g.unpinned(ctx, edgewise.ModelID{Name: name}, "renamed", func() error {
		return g.store.Rename(ctx, name, to, func(v *edgewise.Version, dir string) (store.Rewritten, error) {
			return renamed(v, dir, to)
		})
	})
	if err != nil {
		return err
	}
	g.overrides.forget(name)
	g.logger.Info("model renamed", "model", name, "to", to)
	if g.config.Renamed != nil {
		g.config.Renamed()
	}
	ctx = context.WithoutCancel(ctx) // the model has its new name, whoever still waits for it
	if err = g.takeOver(ctx, to, name); err != nil {
		err = edgewise.Errorf(op, edgewise.KindOf(err), "model %q is %q now and is not ready: %w", name, to, err)
	}
	g.Tell(edgewise.ModelID{Name: name}, "deleted")
	g.Tell(edgewise.ModelID{Name: to}, "stored")
	return err
}

// takeOver makes a model ready under its new name, and then ends what answers under the old one. The locks of both are
// held.
func (g *Registry) takeOver(ctx context.Context, name, old string) error {
	if err := g.refresh(name); err != nil {
		return err
	}
	failure := g.manager.Settle(ctx, name)
	g.manager.Forget(old)
	if failure == nil {
		return nil
	}
	if err := g.manager.Settle(ctx, old); err != nil { // until its memory is free
		return err
	}
	if err := g.refresh(name); err != nil {
		return err
	}
	return g.manager.Settle(ctx, name)
}

// renamed is what a version comes to under another name. A configuration that says the old name says the new one then;
// one that is no config.pbtxt becomes one.
func renamed(v *edgewise.Version, dir, to string) (store.Rewritten, error) {
	m := *v.Model
	m.Name = to
	m.InstanceGroup = slices.Clone(m.InstanceGroup)
	for i := range m.InstanceGroup { // the names that groups get which have none
		if group := &m.InstanceGroup[i]; group.Name == fmt.Sprintf("%s_%d", v.ID.Name, i) {
			group.Name = fmt.Sprintf("%s_%d", to, i)
		}
	}
	changed := store.Rewritten{Model: &m}
	i := slices.IndexFunc(v.Files, func(f edgewise.File) bool { return slices.Contains(modelconfig.Files(), f.Path) })
	if i < 0 {
		return changed, nil
	}
	file := v.Files[i].Path
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return changed, edgewise.Errorf("registry.Rename", edgewise.Corrupt, "file %q of model %v cannot be read", file, v.ID)
	}
	declared, err := modelconfig.Parse(file, text)
	if err != nil || declared.Name == "" {
		return changed, err
	}
	changed.Drop, changed.Path = file, modelconfig.Pbtxt
	if file != modelconfig.Pbtxt {
		declared.Name = to
		changed.Data = modelconfig.Text(declared)
		return changed, nil
	}
	changed.Data, err = modelconfig.Edit(text, []byte(`{"name": "`+to+`"}`))
	return changed, err
}

package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// catalog is what the page shows of models.
type catalog struct{ *App }

var _ httpapi.Catalog = catalog{}

// Notes returns what people wrote about a model or a version.
func (c catalog) Notes(id edgewise.ModelID) string { return c.notes.Get(id) }

// SetNotes replaces it.
func (c catalog) SetNotes(id edgewise.ModelID, text string) error {
	if _, err := c.stored(id); err != nil {
		return err
	}
	if err := c.notes.Set(id, text); err != nil {
		return err
	}
	if id.Version != 0 {
		c.registry.Keep(id)
	}
	c.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "notes"})
	return nil
}

// stored returns a stored version; nil when id names none of a model that is stored. Errors: NotFound.
func (a *App) stored(id edgewise.ModelID) (*edgewise.Version, error) {
	r, err := a.registry.Record(id.Name)
	if err != nil || id.Version == 0 {
		return nil, err
	}
	if v := r.Version(id.Version); v != nil {
		return v, nil
	}
	return nil, edgewise.Errorf("appliance.stored", edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
}

// maxShownLabels bounds the names of an output's elements that are shown.
const maxShownLabels = 1000

// Detail describes a version.
func (c catalog) Detail(ctx context.Context, id edgewise.ModelID) (admin.VersionDetail, error) {
	v, err := c.stored(id)
	if err != nil {
		return admin.VersionDetail{}, err
	}
	d := admin.VersionDetail{
		Version: admin.NewVersion(v, c.engine.Index()), Platform: v.Model.Platform, MaxBatchSize: v.Model.MaxBatchSize, Config: v.Model,
		Inputs: admin.NewTensors(v.Model.Inputs()), Outputs: admin.NewTensors(v.Model.Outputs()), LabelNames: c.labelsOf(id),
	}
	d.Notes = c.notes.Get(id)
	for i := range d.Outputs {
		labels := c.registry.Classes(id, d.Outputs[i].Name)
		d.Outputs[i].Labels = labels[:min(len(labels), maxShownLabels)]
	}
	if needs, err := c.registry.Footprint(ctx, v); err == nil {
		fit := c.fit(ctx, needs.Bytes)
		d.Fit = &fit
	}
	return d, nil
}

// fit tells whether a version that needs so many bytes finds room beside those in memory.
func (a *App) fit(ctx context.Context, needs int64) admin.Fit {
	f := admin.Fit{
		Needs: needs, Limit: int64(a.config.Engine.MaxMemoryBytes), Available: machineMemory().Available, Fits: true,
	}
	for _, s := range a.manager.Statuses() {
		v, _, err := a.manager.Version(s.ID)
		if s.State != edgewise.StateReady || err != nil {
			continue
		}
		if print, err := a.registry.Footprint(ctx, v); err == nil {
			f.Taken += print.Bytes
		}
	}
	switch {
	case f.Limit > 0 && f.Taken+needs > f.Limit:
		f.Fits = false
		f.Reason = fmt.Sprintf("It needs about %d MiB of memory, and of the %d MiB for models (engine.max_memory_bytes) "+
			"%d are taken.", needs>>20, f.Limit>>20, f.Taken>>20)
	case f.Available > 0 && needs > f.Available:
		f.Fits = false
		f.Reason = fmt.Sprintf("It needs about %d MiB of memory, and the machine has %d MiB left.", needs>>20,
			f.Available>>20)
	}
	return f
}

// labelsOf lists the labels that point to a version.
func (a *App) labelsOf(id edgewise.ModelID) []string {
	names := []string{}
	if r := a.registry.Lookup(id.Name); r != nil {
		for _, l := range r.Labels {
			if l.Version == id.Version {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// File opens a file of a version.
func (c catalog) File(id edgewise.ModelID, path string) (io.ReadCloser, int64, error) {
	v, err := c.stored(id)
	if err != nil {
		return nil, 0, err
	}
	i := slices.IndexFunc(v.Files, func(f edgewise.File) bool { return f.Path == path })
	if i < 0 {
		return nil, 0, edgewise.Errorf("appliance.File", edgewise.NotFound, "model %v has no file %q", id, path)
	}
	dir, err := c.store.Dir(id)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return nil, 0, edgewise.Errorf("appliance.File", edgewise.Corrupt, "file %q of model %v cannot be opened", path, id)
	}
	return f, v.Files[i].Size, nil
}

// Compare says what differs between two versions.
func (c catalog) Compare(_ context.Context, name string, from, to int64) (admin.Comparison, error) {
	a, err := c.stored(edgewise.ModelID{Name: name, Version: from})
	if err != nil {
		return admin.Comparison{}, err
	}
	b, err := c.stored(edgewise.ModelID{Name: name, Version: to})
	if err != nil {
		return admin.Comparison{}, err
	}
	index := c.engine.Index()
	out := admin.Comparison{
		From: admin.NewVersion(a, index), To: admin.NewVersion(b, index), Same: a.Digest == b.Digest,
		Differences: append([]admin.Difference{}, admin.SignatureDifferences(a.Model, b.Model)...),
	}
	configured, err := configDifferences(a.Model, b.Model)
	if err != nil {
		return out, err
	}
	out.Differences = append(append(out.Differences, configured...), fileDifferences(a.Files, b.Files)...)
	return out, nil
}

// configDifferences compares declarations member by member, but for the tensors.
func configDifferences(from, to *edgewise.Model) ([]admin.Difference, error) {
	var forms [2]map[string]json.RawMessage
	for i, m := range []*edgewise.Model{from, to} {
		text, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(text, &forms[i])
		}
		if err != nil {
			return nil, edgewise.Errorf("appliance.Compare", edgewise.Internal, "%w", err)
		}
	}
	var list []admin.Difference
	for _, key := range slices.Sorted(maps.Keys(merged(forms[0], forms[1]))) {
		a, b := string(forms[0][key]), string(forms[1][key])
		if key == "input" || key == "output" || a == b {
			continue
		}
		d := admin.Difference{What: "config." + key, Change: "changed", From: a, To: b}
		switch {
		case a == "":
			d.Change = "added"
		case b == "":
			d.Change = "removed"
		}
		list = append(list, d)
	}
	return list, nil
}

func merged[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func fileDifferences(from, to []edgewise.File) []admin.Difference {
	var list []admin.Difference
	text := func(f edgewise.File) string { return fmt.Sprintf("%d bytes, sha256 %s", f.Size, f.Digest) }
	old := map[string]edgewise.File{}
	for _, f := range from {
		old[f.Path] = f
	}
	for _, f := range to {
		before, there := old[f.Path]
		delete(old, f.Path)
		switch {
		case !there:
			list = append(list, admin.Difference{What: "file " + f.Path, Change: "added", To: text(f)})
		case before.Digest != f.Digest:
			list = append(list, admin.Difference{What: "file " + f.Path, Change: "changed", From: text(before), To: text(f)})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(old)) {
		list = append(list, admin.Difference{What: "file " + path, Change: "removed", From: text(old[path])})
	}
	return list
}

// Dependants lists the versions of ensembles that run a version, themselves or through others, those that nothing runs first.
func (c catalog) Dependants(id edgewise.ModelID) ([]admin.Dependant, error) {
	if _, err := c.stored(id); err != nil {
		return nil, err
	}
	list := []admin.Dependant{}
	for _, v := range c.registry.Dependants(id) {
		list = append(list, admin.Dependant{Name: v.Name, Version: v.Version, Labels: c.labelsOf(v)})
	}
	return list, nil
}

// DeleteDependants deletes the versions of ensembles that run a version.
func (c catalog) DeleteDependants(ctx context.Context, id edgewise.ModelID) error {
	return c.registry.DeleteDependants(ctx, id)
}

// Deployments returns what served when.
func (c catalog) Deployments(model string, limit int) ([]admin.Deployment, error) {
	return c.history.List(model, limit)
}

// Ensembles lists the ensembles with what was measured of their steps.
func (c catalog) Ensembles() []admin.Ensemble {
	list := []admin.Ensemble{}
	for _, r := range c.registry.Records() {
		if len(r.Versions) == 0 {
			continue
		}
		live := r.Version(r.Label(edgewise.LiveLabel))
		v := live
		if v == nil {
			v = r.Versions[len(r.Versions)-1]
		}
		if !ensemble.Is(v.Model) {
			continue
		}
		e := admin.Ensemble{Name: r.Name, Version: v.ID.Version, Live: live != nil, Config: v.Model, Steps: []admin.EnsembleStep{}}
		statistics, _ := c.manager.Statistics(v.ID)
		for i, s := range v.Model.EnsembleScheduling.Step {
			e.Steps = append(e.Steps, ensembleStep(i, s, statistics))
		}
		list = append(list, e)
	}
	return list
}

func ensembleStep(i int, s edgewise.EnsembleStep, statistics edgewise.Statistics) admin.EnsembleStep {
	step := admin.EnsembleStep{Step: i, Model: s.ModelName}
	if s.Pinned != nil {
		step.Version = s.Pinned.Version
	}
	if i >= len(statistics.Steps) {
		return step
	}
	m := statistics.Steps[i]
	step.Count, step.Failed, step.Skipped = m.Success.Count, m.Fail.Count, m.Skipped
	step.Mean, step.Wait = mean(m.Success), mean(m.Wait)
	return step
}

// mean is a mean time in microseconds, 0 for none.
func mean(d edgewise.Duration) float64 {
	if d.Count == 0 {
		return 0
	}
	return float64(d.Total.Nanoseconds()) / 1000 / float64(d.Count)
}

// Backup writes a backup of this box.
func (c catalog) Backup(ctx context.Context, w io.Writer, accounts bool) error {
	return c.importer.WriteBackup(ctx, w, accounts)
}

// BackupName is a name for a backup of this box, made now.
func (c catalog) BackupName() string {
	name := strings.ReplaceAll(c.box.Settings().Name, "/", "_")
	return fmt.Sprintf("%s-%s.edgewise-backup", name, time.Now().UTC().Format("20060102-150405"))
}

// Package catalog describes the stored models to people: versions, notes, graphs, files, differences, dependants.
package catalog

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/document"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
	"github.com/edgewise-ai/edgewise/store"
)

// Registry is what a Catalog needs of the registry of models. registry.Registry describes the methods.
type Registry interface {
	Records() []*edgewise.Record
	Record(name string) (*edgewise.Record, error)
	Keep(id edgewise.ModelID)
	Classes(id edgewise.ModelID, output string) []string
	Footprint(ctx context.Context, v *edgewise.Version) (manager.Footprint, error)
	Declared(id edgewise.ModelID) (text []byte, file string, err error)
	Configured(ctx context.Context, id edgewise.ModelID, declared *edgewise.Model) (*edgewise.Model, error)
	Dependants(id edgewise.ModelID) []edgewise.ModelID
	DeleteDependants(ctx context.Context, id edgewise.ModelID) error
	Measure(ctx context.Context, id edgewise.ModelID) error
}

// Notes are texts about models and versions. registry.Notes describes the methods.
type Notes interface {
	Get(id edgewise.ModelID) string
	Set(id edgewise.ModelID, text string) error
}

// Config is what a Catalog works with.
type Config struct {
	Registry Registry
	Notes    Notes
	Store    *store.Store
	// History returns the latest deployments of a model, of all models for "", the last one first.
	History func(model string, limit int) ([]admin.Deployment, error)
	// Index lists the status of every version that clients see, Statuses those that the manager has.
	Index, Statuses func() []edgewise.Status
	Version         func(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error)
	Statistics      func(id edgewise.ModelID) (edgewise.Statistics, error)
	// ONNXFile reads the graph of an ONNX model in a folder. Errors: Unsupported for another model, those of the file.
	ONNXFile func(dir string, m *edgewise.Model) (*onnxfile.File, error)
	// Choice returns what was measured of a version on the devices of the box, nil when nothing was.
	Choice          func(id edgewise.ModelID) *admin.Choice
	MaxMemoryBytes  int64                           // of all models; 0: no limit
	AvailableMemory func() int64                    // of the machine, in bytes; 0: unknown
	Publish         func(topic string, message any) // tells listeners of a change
}

// Catalog describes the stored models. All methods are safe for concurrent use.
type Catalog struct{ config Config }

// New returns a Catalog.
func New(c Config) *Catalog { return &Catalog{c} }

// Notes returns what people wrote about a model or a version.
func (c *Catalog) Notes(id edgewise.ModelID) string { return c.config.Notes.Get(id) }

// SetNotes replaces it. Errors: NotFound, TooLarge.
func (c *Catalog) SetNotes(id edgewise.ModelID, text string) error {
	if _, err := c.stored(id); err != nil {
		return err
	}
	if err := c.config.Notes.Set(id, text); err != nil {
		return err
	}
	if id.Version != 0 {
		c.config.Registry.Keep(id)
	}
	c.config.Publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "notes"})
	return nil
}

// stored returns a stored version; nil when id names none of a model that is stored. Errors: NotFound.
func (c *Catalog) stored(id edgewise.ModelID) (*edgewise.Version, error) {
	r, err := c.config.Registry.Record(id.Name)
	if err != nil || id.Version == 0 {
		return nil, err
	}
	if v := r.Version(id.Version); v != nil {
		return v, nil
	}
	return nil, edgewise.Errorf("catalog.stored", edgewise.NotFound, "model %q has no version %d", id.Name, id.Version)
}

// maxShownLabels bounds the names of an output's elements that are shown.
const maxShownLabels = 1000

// Detail describes a version. Errors: NotFound.
func (c *Catalog) Detail(ctx context.Context, id edgewise.ModelID) (admin.VersionDetail, error) {
	v, err := c.stored(id)
	if err != nil {
		return admin.VersionDetail{}, err
	}
	d := admin.VersionDetail{
		Version: admin.NewVersion(v,
			c.config.Index()), Platform: v.Model.Platform, MaxBatchSize: v.Model.MaxBatchSize, Config: v.Model,
		Inputs: admin.NewTensors(v.Model.Inputs()), Outputs: admin.NewTensors(v.Model.Outputs()), LabelNames: c.labelsOf(id),
	}
	d.Notes, d.Choice = c.config.Notes.Get(id), c.config.Choice(id)
	for i := range d.Outputs {
		labels := c.config.Registry.Classes(id, d.Outputs[i].Name)
		d.Outputs[i].Labels = labels[:min(len(labels), maxShownLabels)]
	}
	if needs, err := c.config.Registry.Footprint(ctx, v); err == nil {
		fit := c.Fit(ctx, needs.Bytes)
		d.Fit = &fit
	}
	if st, err := c.config.Statistics(id); err == nil && st.Process != nil && (st.Process.PID != 0 || st.Process.Resting) {
		p := st.Process
		d.Process = &admin.VersionProcess{Resident: p.Resident, Group: p.Group, Note: p.Note, Resting: p.Resting}
	}
	return d, nil
}

// Measure has a ready version measured once more on the devices of the box. Errors: NotFound, Unavailable, Unsupported.
func (c *Catalog) Measure(ctx context.Context, id edgewise.ModelID) (*admin.Choice, error) {
	if _, err := c.stored(id); err != nil {
		return nil, err
	}
	if err := c.config.Registry.Measure(ctx, id); err != nil {
		return nil, err
	}
	c.config.Publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "measured"})
	return c.config.Choice(id), nil
}

// Fit tells whether a version that needs so many bytes finds room beside those in memory.
func (c *Catalog) Fit(ctx context.Context, needs int64) admin.Fit {
	f := admin.Fit{
		Needs: needs, Limit: c.config.MaxMemoryBytes, Available: c.config.AvailableMemory(), Fits: true,
	}
	for _, s := range c.config.Statuses() {
		v, _, err := c.config.Version(s.ID)
		if s.State != edgewise.StateReady || err != nil {
			continue
		}
		if print, err := c.config.Registry.Footprint(ctx, v); err == nil {
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
func (c *Catalog) labelsOf(id edgewise.ModelID) []string {
	names := []string{}
	if r, err := c.config.Registry.Record(id.Name); err == nil {
		for _, l := range r.Labels {
			if l.Version == id.Version {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// File opens a file of a version. Errors: NotFound, Corrupt.
func (c *Catalog) File(id edgewise.ModelID, path string) (io.ReadCloser, int64, error) {
	v, err := c.stored(id)
	if err != nil {
		return nil, 0, err
	}
	i := slices.IndexFunc(v.Files, func(f edgewise.File) bool { return f.Path == path })
	if i < 0 {
		return nil, 0, edgewise.Errorf("catalog.File", edgewise.NotFound, "model %v has no file %q", id, path)
	}
	dir, err := c.config.Store.Dir(id)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return nil, 0, edgewise.Errorf("catalog.File", edgewise.Corrupt, "file %q of model %v cannot be opened", path, id)
	}
	return f, v.Files[i].Size, nil
}

// Compare lists the differences between two versions. Errors: NotFound.
func (c *Catalog) Compare(_ context.Context, name string, from, to int64) (admin.Comparison, error) {
	a, err := c.stored(edgewise.ModelID{Name: name, Version: from})
	if err != nil {
		return admin.Comparison{}, err
	}
	b, err := c.stored(edgewise.ModelID{Name: name, Version: to})
	if err != nil {
		return admin.Comparison{}, err
	}
	index := c.config.Index()
	return admin.Comparison{
		From: admin.NewVersion(a, index), To: admin.NewVersion(b, index), Same: a.Digest == b.Digest,
		Differences: Differences(a, b),
	}, nil
}

// Differences compares two versions: their tensors, the other members of their declarations, and their files.
func Differences(from, to *edgewise.Version) []admin.Difference {
	list := append([]admin.Difference{}, admin.SignatureDifferences(from.Model, to.Model)...)
	list = append(list, configDifferences(from.Model, to.Model)...)
	return append(list, fileDifferences(from.Files, to.Files)...)
}

// configDifferences compares declarations member by member, but for the tensors.
func configDifferences(from, to *edgewise.Model) []admin.Difference {
	var list []admin.Difference
	after := modelconfig.Fields(to)
	for i, before := range modelconfig.Fields(from) {
		if before.Name == "input" || before.Name == "output" || before.Text == after[i].Text {
			continue
		}
		d := admin.Difference{
			What: "config." + before.Name, Change: "changed", From: fieldValue(before), To: fieldValue(after[i]),
		}
		switch {
		case d.From == "":
			d.Change = "added"
		case d.To == "":
			d.Change = "removed"
		}
		list = append(list, d)
	}
	return list
}

// fieldValue returns what a field is set to: a single value without its name, messages as they stand in config.pbtxt.
func fieldValue(t document.Text) string {
	text := strings.TrimSuffix(t.Text, "\n")
	if !strings.Contains(text, "\n") {
		text = strings.TrimPrefix(text, t.Name+": ")
	}
	return text
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

// Dependants lists the versions of ensembles that run a version, themselves or through others, those that nothing runs
// first.
func (c *Catalog) Dependants(id edgewise.ModelID) ([]admin.Dependant, error) {
	if _, err := c.stored(id); err != nil {
		return nil, err
	}
	list := []admin.Dependant{}
	for _, v := range c.config.Registry.Dependants(id) {
		list = append(list, admin.Dependant{Name: v.Name, Version: v.Version, Labels: c.labelsOf(v)})
	}
	return list, nil
}

// DeleteDependants deletes the versions of ensembles that run a version.
func (c *Catalog) DeleteDependants(ctx context.Context, id edgewise.ModelID) error {
	return c.config.Registry.DeleteDependants(ctx, id)
}

// Deployments returns what served when.
func (c *Catalog) Deployments(model string, limit int) ([]admin.Deployment, error) {
	return c.config.History(model, limit)
}

// Ensembles lists the ensembles with what was measured of their steps.
func (c *Catalog) Ensembles() []admin.Ensemble {
	list := []admin.Ensemble{}
	for _, r := range c.config.Registry.Records() {
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
		e := admin.Ensemble{
			Name: r.Name, Version: v.ID.Version, Live: live != nil, Config: v.Model,
			Steps: []admin.EnsembleStep{},
		}
		statistics, _ := c.config.Statistics(v.ID)
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

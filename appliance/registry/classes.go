package registry

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/store"
)

// Bounds of a label file. One that crosses them is not used at all: labels that end in the middle would mislead.
const (
	maxLabelBytes = 1 << 20
	maxLabelLines = 100_000
)

// classCache keeps the names of classes of the versions that are loaded. The zero value is empty.
type classCache struct {
	versions sync.Map // edgewise.ModelID to *versionClasses
}

// versionClasses are the names of classes of one version's outputs, by name; each file is read when it is first asked
// for.
type versionClasses struct {
	outputs map[string]func() []string
}

// Classes returns the names of an output's elements: the lines of the file that label_filename names; for an ensemble
// without one, those of the model that makes the output. Without a file, or with one that cannot be used, there are
// none, and classes carry their index alone. The caller must not change them.
func (g *Registry) Classes(id edgewise.ModelID, output string) []string {
	kept, ok := g.classes.versions.Load(id)
	if !ok { // it was unloaded since it answered
		kept = g.storedClasses(id)
	}
	if read := kept.(*versionClasses).outputs[output]; read != nil {
		return read()
	}
	return nil
}

// storedClasses are the labels of a version that may not be loaded, empty when it is not stored any more.
func (g *Registry) storedClasses(id edgewise.ModelID) *versionClasses {
	record := g.Lookup(id.Name)
	if record == nil || record.Version(id.Version) == nil {
		return &versionClasses{}
	}
	v := record.Version(id.Version)
	dir, err := g.store.Dir(v.StoredID())
	if err != nil {
		return &versionClasses{}
	}
	return g.versionClasses(v, dir)
}

func (g *Registry) versionClasses(v *edgewise.Version, dir string) *versionClasses {
	files := map[string]func() []string{}
	labels := &versionClasses{outputs: map[string]func() []string{}}
	for _, out := range v.Model.Output {
		name := out.LabelFilename
		if name == "" {
			if id, output := partOutput(v.Model, out.Name); output != "" {
				labels.outputs[out.Name] = func() []string { return g.Classes(id, output) }
			}
			continue
		}
		if files[name] == nil {
			files[name] = sync.OnceValue(func() []string {
				lines, err := readLabels(filepath.Join(dir, filepath.FromSlash(name)))
				if err != nil {
					g.logger.Error("label file is not used", "model", v.ID.String(), "file", name, "error", err)
				}
				return lines
			})
		}
		labels.outputs[out.Name] = files[name]
	}
	return labels
}

// readLabels returns the lines of a file without their ends.
func readLabels(path string) ([]string, error) {
	data, err := store.ReadBounded(path, maxLabelBytes)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	text := strings.TrimSuffix(string(data), "\n")
	if strings.Count(text, "\n") >= maxLabelLines {
		return nil, fmt.Errorf("it has more than %d lines", maxLabelLines)
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines, nil
}

// withClasses keeps a version's labels for as long as it is loaded.
func (g *Registry) withClasses(loaded *manager.Loaded, v *edgewise.Version, dir string) {
	labels := g.versionClasses(v, dir)
	if len(labels.outputs) == 0 {
		return
	}
	g.classes.versions.Store(v.ID, labels)
	loaded.OnClose = append(loaded.OnClose, func() { g.classes.versions.CompareAndDelete(v.ID, labels) })
}

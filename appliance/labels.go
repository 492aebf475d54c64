package appliance

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// Bounds of a label file. One that crosses them is not used at all: labels that end in the middle would mislead.
const (
	maxLabelBytes = 1 << 20
	maxLabelLines = 100_000
)

// labelCache keeps the labels of the versions that are loaded. The zero value is empty.
type labelCache struct {
	versions sync.Map // edgewise.ModelID to *versionLabels
}

// versionLabels are the labels of one version's outputs, by name; each file is read when it is first asked for.
type versionLabels struct {
	outputs map[string]func() []string
}

// labels returns the names of an output's elements: the lines of the file that label_filename names; for an ensemble
// without one, those of the model that makes the output. Without a file, or with one that cannot be used, there are none, and classes carry their index alone. The caller must not change them.
func (l *library) labels(id edgewise.ModelID, output string) []string {
	kept, ok := l.labelCache.versions.Load(id)
	if !ok { // it was unloaded since it answered
		kept = l.storedLabels(id)
	}
	if read := kept.(*versionLabels).outputs[output]; read != nil {
		return read()
	}
	return nil
}

// storedLabels are the labels of a version that may not be loaded, empty when it is not stored any more.
func (l *library) storedLabels(id edgewise.ModelID) *versionLabels {
	record := l.record(id.Name)
	if record == nil || record.Version(id.Version) == nil {
		return &versionLabels{}
	}
	v := record.Version(id.Version)
	dir, err := l.store.Dir(v.StoredID())
	if err != nil {
		return &versionLabels{}
	}
	return l.versionLabels(v, dir)
}

func (l *library) versionLabels(v *edgewise.Version, dir string) *versionLabels {
	files := map[string]func() []string{}
	labels := &versionLabels{outputs: map[string]func() []string{}}
	for _, out := range v.Model.Output {
		name := out.LabelFilename
		if name == "" {
			if id, output := partOutput(v.Model, out.Name); output != "" {
				labels.outputs[out.Name] = func() []string { return l.labels(id, output) }
			}
			continue
		}
		if files[name] == nil {
			files[name] = sync.OnceValue(func() []string {
				lines, err := readLabels(filepath.Join(dir, filepath.FromSlash(name)))
				if err != nil {
					l.logger.Error("label file is not used", "model", v.ID.String(), "file", name, "error", err)
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
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxLabelBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) == 0:
		return nil, nil
	case len(data) > maxLabelBytes:
		return nil, fmt.Errorf("it has more than %d bytes", maxLabelBytes)
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

// withLabels keeps a version's labels for as long as it is loaded.
func (l *library) withLabels(loaded *manager.Loaded, v *edgewise.Version, dir string) {
	labels := l.versionLabels(v, dir)
	if len(labels.outputs) == 0 {
		return
	}
	l.labelCache.versions.Store(v.ID, labels)
	loaded.OnClose = append(loaded.OnClose, func() { l.labelCache.versions.CompareAndDelete(v.ID, labels) })
}

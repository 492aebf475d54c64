package appliance

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// maxLabelBytes bounds what is read of a label file.
const maxLabelBytes = 1 << 20

// labels returns the names of an output's elements: the lines of the file that label_filename names. It is read for
// each answer that asks for classes, from the page cache; without a file, or with one that cannot be read, there are no
// labels, and classes carry their index alone.
func (l *library) labels(id edgewise.ModelID, output string) []string {
	record, err := l.store.Record(id.Name)
	if err != nil {
		return nil
	}
	v := record.Version(id.Version)
	if v == nil {
		return nil
	}
	dir, err := l.store.Dir(id)
	if err != nil {
		return nil
	}
	for _, out := range v.Model.Output {
		if out.Name == output && out.LabelFilename != "" {
			return l.labelFile(id, filepath.Join(dir, filepath.FromSlash(out.LabelFilename)))
		}
	}
	return nil
}

func (l *library) labelFile(id edgewise.ModelID, path string) []string {
	f, err := os.Open(path)
	if err != nil {
		l.logger.Error("label file", "model", id.String(), "error", err)
		return nil
	}
	defer func() { _ = f.Close() }()
	var labels []string
	lines := bufio.NewScanner(io.LimitReader(f, maxLabelBytes))
	for lines.Scan() {
		labels = append(labels, strings.TrimSuffix(lines.Text(), "\r"))
	}
	return labels
}

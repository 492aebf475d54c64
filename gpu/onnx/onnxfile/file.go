package onnxfile

import (
	"io"
	"os"
	"path"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// File is what an ONNX file says of itself. It belongs to whoever called Read.
type File struct {
	// A Shape is nil when the file does not say how many dimensions there are. The Type of an output is InvalidType when
	// the file leaves it to the runtime. Nodes, Operators and Parameters include those of subgraphs and functions.
	edgewise.Inspection
	IRVersion int64
	Graph     *Graph
	Functions []Function
	Files     []string // the files that hold external data, sorted, relative to the dir Read was given
}

// Read reads the ONNX file at the slash-separated path file inside dir, and looks at the files its external data is in.
// Both must be regular files reached without a link; nothing outside dir is opened. It holds a few KiB of the file at a
// time, and what it returns is bounded by lim.Kept.
//
// Errors: Invalid (the reason, with the thing it is about), TooLarge (a limit of lim), Unsupported (well formed, but
// nothing this box runs), Internal (the disk).
func Read(dir, file string, lim Limits) (*File, error) {
	if err := edgewise.CheckPath(file); err != nil {
		return nil, invalid("model file: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, edgewise.Errorf(operation, edgewise.Internal, "model folder: %w", err)
	}
	defer root.Close()
	d := folder{root}
	f, size, err := d.open(file)
	if err != nil {
		return nil, within(err, "model file")
	}
	defer f.Close()
	parsed, err := parse(f, size, disk{stat: d.stat, base: path.Dir(file)}, lim)
	return parsed, within(err, "model file %.64q", file)
}

// parse reads size bytes of from.
func parse(from io.ReaderAt, size int64, d disk, lim Limits) (*File, error) {
	d.sizes = map[string]int64{}
	w := &walker{
		source:   source{from: from, size: size},
		tally:    tally{Limits: lim},
		disk:     d,
		content:  newContent(),
		interned: map[string]string{},
	}
	f, err := w.model()
	if err != nil {
		return nil, err
	}
	for location := range w.sizes {
		f.Files = append(f.Files, path.Join(d.base, location))
	}
	slices.Sort(f.Files)
	return f, nil
}

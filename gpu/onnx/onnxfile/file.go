package onnxfile

import (
	"io"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// File is what an ONNX file says of itself. It belongs to whoever called Read.
type File struct {
	IRVersion      int64
	Producer       string                // name and version; may be empty
	Inputs         []edgewise.TensorInfo // Shape is nil when the file does not say how many dimensions there are
	Outputs        []edgewise.TensorInfo // likewise; Type is InvalidType when the file leaves it to the runtime
	Omitted        []edgewise.Omitted    // inputs with a default, and outputs, that requests and answers cannot carry
	Opsets         map[string]int64      // by domain; "" is written as "ai.onnx"
	Operators      map[string]int        // nodes by "domain.Type", those of subgraphs and functions included
	Metadata       map[string]string
	Parameters     int64 // elements of all initializers and of the tensors in attributes
	ParameterBytes int64 // their bytes, external data included; of sparse ones the stored values and indices
	NodeCount      int   // nodes, those of subgraphs and functions included
	Graph          *Graph
	Functions      []Function
	Files          []string // the files that hold external data, sorted, relative to the dir Read was given
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

// Inspection returns what the box keeps of a file. It shares nothing with f.
func (f *File) Inspection() *edgewise.Inspection {
	return &edgewise.Inspection{
		Inputs:         copyInfos(f.Inputs),
		Outputs:        copyInfos(f.Outputs),
		Producer:       f.Producer,
		Opsets:         maps.Clone(f.Opsets),
		Operators:      maps.Clone(f.Operators),
		Metadata:       maps.Clone(f.Metadata),
		Parameters:     f.Parameters,
		ParameterBytes: f.ParameterBytes,
		Nodes:          f.NodeCount,
		Omitted:        slices.Clone(f.Omitted),
	}
}

func copyInfos(infos []edgewise.TensorInfo) []edgewise.TensorInfo {
	c := make([]edgewise.TensorInfo, len(infos))
	for i, t := range infos {
		t.Shape, t.Dims = slices.Clone(t.Shape), slices.Clone(t.Dims)
		c[i] = t
	}
	return c
}

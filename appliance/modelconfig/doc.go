// Package modelconfig turns what an author writes about a model (config.pbtxt, YAML, JSON or nothing) into a complete,
// checked edgewise.Model.
//
// The order of use, for the files of one version in one folder:
//
//	m, err := modelconfig.Read(dir, name)                 // as declared
//	m, err = modelconfig.Identify(m, name, files, d)      // which backend, which file
//	ins, err := backend.Inspect(ctx, dir, m)              // what the file says
//	m, err = modelconfig.Complete(m, name, files, ins, d) // what the author left out
//	err = modelconfig.Validate(m, files, ins, d)          // everything that is wrong, at once
package modelconfig

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Unset is MaxBatchSize of a model whose author did not write max_batch_size. Only models that Read, Parse and Identify
// return hold it; Complete resolves it. It keeps "not written" apart from 0, which means "never batch".
const Unset int32 = -1

// Defaults are the answers of the appliance to what an author leaves open, and the formats that it serves.
type Defaults struct {
	Formats edgewise.Formats // of which each model has one
	Places  []string         // folders in which backends of other programs are looked for
	// of a model that can batch, declares no inputs or no outputs and says no max_batch_size; 0: no batching
	MaxBatchSize int32
	// nothing is filled in from the model's file: the author declares inputs and outputs, by Triton's rules
	Strict bool
	// of an instance group that says no count; below 1: 1; cut so that all groups stay within MaxInstances
	InstanceCount int32
}

// Identify returns m with its name, platform, backend and default_model_filename filled in from name and from files,
// the paths of the version's files. The model's file has the default name of its format, or is the only one with the
// format's extension. It may also be a folder that holds a file of the default name and its external data.
// m is not changed. Errors: Invalid (the declared name differs; platform and backend contradict each other; there is no
// model file), Unsupported (no backend of this box serves the platform).
func Identify(m *edgewise.Model, name string, files []string, d Defaults) (*edgewise.Model, error) {
	c := Clone(m)
	if c.Name == "" {
		c.Name = name
	}
	if c.Name != name {
		return nil, fail(name, edgewise.Invalid, "the configuration says name %q: leave it out or write %q", c.Name, name)
	}
	f, err := choose(c, files, d)
	if err != nil {
		return nil, err
	}
	c.Platform, c.Backend = f.Platform, f.Backend
	if c.DefaultModelFilename == "" {
		c.DefaultModelFilename = f.File
	}
	if file := c.DefaultModelFilename; file != "" && !modelFile(files, file, d.Formats) {
		return nil, fail(name, edgewise.Invalid, "there is no file %q, the model itself%s", file, listed("files", files))
	}
	return c, nil
}

// choose finds the format: the declared one, otherwise that of the files. Its File is the model's file.
func choose(m *edgewise.Model, files []string, d Defaults) (edgewise.Format, error) {
	formats := d.Formats
	declared := m.Platform != "" || m.Backend != ""
	for _, f := range formats {
		if declared && agrees(f, m) || !declared && f.File == "" && m.EnsembleScheduling != nil {
			return f, nil
		}
	}
	if declared {
		return edgewise.Format{}, notServed(m, d)
	}
	for _, f := range formats {
		if f.File != "" && found(f, m, files) {
			return f, nil
		}
	}
	for _, f := range formats {
		switch own := ownName(f, files); {
		case len(own) == 1:
			f.File = own[0]
			return f, nil
		case len(own) > 1:
			return edgewise.Format{}, fail(m.Name, edgewise.Invalid,
				"there are several model files: name one as default_model_filename in the configuration%s", listed("files", own))
		}
	}
	if slices.Contains(files, "saved_model.pb") {
		return edgewise.Format{}, fail(m.Name, edgewise.Unsupported, "this is a SavedModel, whose graph and variables need "+
			"TensorFlow: convert it with \"python -m tf2onnx.convert --saved-model FOLDER --output model.onnx\"")
	}
	return edgewise.Format{}, fail(m.Name, edgewise.Invalid, "there is no model file: want %s, or "+
		"default_model_filename in the configuration%s", strings.Join(formats.Files(), " or "), listed("files", files))
}

// notServed says that no format has the declared platform and backend, which ones there are, and where others are looked
// for.
func notServed(m *edgewise.Model, d Defaults) error {
	what := fmt.Sprintf("platform %q with backend %q", m.Platform, m.Backend)
	name := func(f edgewise.Format) string { return f.Platform + " with " + f.Backend }
	switch {
	case m.Backend == "":
		what, name = fmt.Sprintf("platform %q", m.Platform), func(f edgewise.Format) string { return f.Platform }
	case m.Platform == "":
		what, name = fmt.Sprintf("backend %q", m.Backend), func(f edgewise.Format) string { return f.Backend }
	}
	var served []string
	for _, f := range d.Formats {
		if f.Backend != "" && !slices.Contains(served, name(f)) {
			served = append(served, name(f))
		}
	}
	text := fmt.Sprintf("%s is not served by this box, which has %s", what, strings.Join(served, ", "))
	if len(d.Places) > 0 {
		text += "; backends of other programs are looked for in " + strings.Join(d.Places, ", ")
	}
	return fail(m.Name, edgewise.Unsupported, "%s", text)
}

func first(formats edgewise.Formats) (f edgewise.Format) {
	if len(formats) > 0 {
		f = formats[0]
	}
	return f
}

func agrees(f edgewise.Format, m *edgewise.Model) bool {
	return (m.Platform == "" || m.Platform == f.Platform) && (m.Backend == "" || m.Backend == f.Backend)
}

func found(f edgewise.Format, m *edgewise.Model, files []string) bool {
	if m.DefaultModelFilename != "" {
		return strings.HasSuffix(m.DefaultModelFilename, f.Extension())
	}
	return modelFile(files, f.File, edgewise.Formats{f})
}

// ownName lists the files of a format that have a name of their own and are in no folder.
func ownName(f edgewise.Format, files []string) (list []string) {
	for _, file := range files {
		if f.File != "" && path.Ext(file) == f.Extension() && path.Base(file) == file {
			list = append(list, file)
		}
	}
	return list
}

// modelFile tells whether the file, or a folder of that name with a model file inside, is there.
func modelFile(files []string, name string, formats edgewise.Formats) bool {
	return slices.Contains(files, name) || slices.ContainsFunc(formats.Files(), func(file string) bool {
		return slices.Contains(files, name+"/"+file)
	})
}

// maxListed bounds how many names a message lists.
const maxListed = 16

// listed returns " (what: a, b)" for messages, "" for no names.
func listed(what string, names []string) string {
	switch {
	case len(names) == 0:
		return ""
	case len(names) > maxListed:
		return " (" + what + ": " + strings.Join(names[:maxListed], ", ") + ", ...)"
	}
	return " (" + what + ": " + strings.Join(names, ", ") + ")"
}

func fail(model string, kind edgewise.Kind, format string, args ...any) *edgewise.Error {
	err := edgewise.Errorf("modelconfig", kind, "model %q: "+format, append([]any{model}, args...)...)
	err.Model = edgewise.ModelID{Name: model}
	return err
}

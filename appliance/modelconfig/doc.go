// Package modelconfig turns what an author writes about a model (config.pbtxt, YAML, JSON or nothing) into a complete,
// checked edgewise.Model.
//
// The order of use, for the files of one version in one folder:
//
//	m, err := modelconfig.Read(dir, name)                 // as declared
//	m, err = modelconfig.Identify(m, name, files)         // which backend, which file
//	ins, err := backend.Inspect(ctx, dir, m)              // what the file says
//	m, err = modelconfig.Complete(m, name, files, ins, d) // what the author left out
//	err = modelconfig.Validate(m, files, ins)             // everything that is wrong, at once
package modelconfig

import (
	"path"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Unset is MaxBatchSize of a model whose author did not write max_batch_size. Only models that Read, Parse and Identify
// return hold it; Complete resolves it. It keeps "not written" apart from 0, which means "never batch".
const Unset int32 = -1

// Defaults are the answers of the appliance to what an author leaves open.
type Defaults struct {
	// of a model that can batch, declares no inputs or no outputs and says no max_batch_size; 0: no batching
	MaxBatchSize int32
	// models may run on a GPU of the box: an instance group that leaves the kind open stays open until it is loaded
	GPU bool
	// nothing is filled in from the model's file: the author declares inputs and outputs, by Triton's rules
	Strict bool
	// of an instance group that says no count; below 1: 1; cut so that all groups stay within MaxInstances
	InstanceCount int32
}

// platform is one kind of model file.
type platform struct {
	platform, backend string
	file              string // its default name; empty: it has none
}

var platforms = []platform{
	{"onnxruntime_onnx", "onnxruntime", "model.onnx"},
	{"wasm", "wasm", "model.wasm"},
	{"ensemble", "", ""},
}

// Identify returns m with its name, platform, backend and default_model_filename filled in from name and from files,
// the paths of the version's files. The model is model.onnx or model.wasm, or the only file with such an end. A model
// file may also be a folder that holds model.onnx and its external data.
// m is not changed. Errors: Invalid (the declared name differs; platform and backend contradict each other; there is no
// model file), Unsupported (no backend of this box serves the platform).
func Identify(m *edgewise.Model, name string, files []string) (*edgewise.Model, error) {
	c := clone(m)
	if c.Name == "" {
		c.Name = name
	}
	if c.Name != name {
		return nil, fail(name, edgewise.Invalid, "the configuration says name %q: leave it out or write %q", c.Name, name)
	}
	p, err := choose(c, files)
	if err != nil {
		return nil, err
	}
	if reasons := Unsupported(&edgewise.Model{Platform: p.platform}); len(reasons) > 0 {
		return nil, fail(name, edgewise.Unsupported, "%s", strings.Join(reasons, "; "))
	}
	c.Platform, c.Backend = p.platform, p.backend
	if c.DefaultModelFilename == "" {
		c.DefaultModelFilename = p.file
	}
	if f := c.DefaultModelFilename; f != "" && !modelFile(files, f) {
		return nil, fail(name, edgewise.Invalid, "there is no file %q, the model itself%s", f, listed("files", files))
	}
	return c, nil
}

// choose finds the platform: the declared one, else the one whose file is there.
func choose(m *edgewise.Model, files []string) (platform, error) {
	if m.EnsembleScheduling != nil && m.Platform == "" && m.Backend == "" {
		return platform{platform: "ensemble"}, nil
	}
	for _, p := range platforms {
		if (m.Platform != "" || m.Backend != "") && p.agrees(m) {
			return p, nil
		}
	}
	switch {
	case m.Platform != "" && m.Backend != "":
		return platform{}, fail(m.Name, edgewise.Unsupported, "platform %q with backend %q is not served by this box: want "+
			"platform \"onnxruntime_onnx\" with backend \"onnxruntime\"", m.Platform, m.Backend)
	case m.Platform != "":
		return platform{}, fail(m.Name, edgewise.Unsupported, "platform %q is not served by this box: want "+
			"\"onnxruntime_onnx\"", m.Platform)
	case m.Backend != "":
		return platform{}, fail(m.Name, edgewise.Unsupported, "backend %q is not served by this box: want \"onnxruntime\"",
			m.Backend)
	}
	for _, p := range platforms {
		if p.file != "" && p.found(m, files) {
			return p, nil
		}
	}
	for _, p := range platforms {
		switch own := ownName(p, files); {
		case len(own) == 1:
			p.file = own[0]
			return p, nil
		case len(own) > 1:
			return platform{}, fail(m.Name, edgewise.Invalid,
				"there are several model files: name one as default_model_filename in the configuration%s", listed("files", own))
		}
	}
	return platform{}, fail(m.Name, edgewise.Invalid, "there is no model file: want model.onnx or model.wasm, or "+
		"default_model_filename in the configuration%s", listed("files", files))
}

func (p platform) agrees(m *edgewise.Model) bool {
	return (m.Platform == "" || m.Platform == p.platform) && (m.Backend == "" || m.Backend == p.backend)
}

func (p platform) found(m *edgewise.Model, files []string) bool {
	if m.DefaultModelFilename != "" {
		return strings.HasSuffix(m.DefaultModelFilename, p.file[strings.LastIndexByte(p.file, '.'):])
	}
	return modelFile(files, p.file)
}

// ownName lists the files of a platform's kind that have a name of their own and are in no folder.
func ownName(p platform, files []string) (list []string) {
	for _, file := range files {
		if p.file != "" && path.Ext(file) == path.Ext(p.file) && path.Base(file) == file {
			list = append(list, file)
		}
	}
	return list
}

// modelFile tells whether the file, or the folder with a model.onnx inside, is there.
func modelFile(files []string, name string) bool {
	return slices.Contains(files, name) || slices.Contains(files, name+"/model.onnx")
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

package edgewise

import (
	"path"
	"strings"
)

// Format is a kind of model that a Backend loads, or that of ensembles.
type Format struct {
	Platform string       // of its models, such as "onnxruntime_onnx"
	Backend  string       // its name in configurations, such as "onnxruntime"; empty: they name none
	File     string       // default name of the model's file, such as "model.onnx"; empty: a configuration alone
	Devices  []DeviceKind // that its versions can run on; the CPU is one of them
	// Guest says that its versions are guests, such as WebAssembly steps: a run takes one core, and leaves it to others
	// when it takes long; no request is made up to try them; they see which optional inputs a request has left out.
	Guest bool
	// Answers says that its versions may be decoupled, and send any number of responses to a request: then its backend's
	// instances are Answerers. Ensembles are decoupled if one of their steps is.
	Answers bool
	// External says that its backend is another program, of which it is known by name: Backend.
	External bool
	// Untried says that no request is made up to try its versions: they may do anything with it.
	Untried bool
	// GPUMemory is what an instance of its versions takes of a GPU, in bytes, unless they say so; 0: it is estimated from
	// their weights.
	GPUMemory int64
	// Remote says that its versions run in a server beside the box: a run takes no core of the box, and waits for an answer.
	Remote bool
}

// Extension returns the end of the names of all model files of the format, such as ".onnx"; "" when it has no files.
func (f Format) Extension() string { return path.Ext(f.File) }

// Kind returns the name of the format for people: its backend if that is another program, the extension of its files
// without the dot, otherwise its platform.
func (f Format) Kind() string {
	switch {
	case f.External:
		return f.Backend
	case f.File == "":
		return f.Platform
	}
	return f.Extension()[1:]
}

// Formats are the formats that a build serves, each platform once. The first one is that of uploads which do not say
// what they are.
type Formats []Format

// Of returns the format of a complete model, by its platform.
func (l Formats) Of(m *Model) (f Format, ok bool) {
	for _, f := range l {
		if f.Platform == m.Platform {
			return f, true
		}
	}
	return Format{}, false
}

// Kind returns the name of a complete model's format for people, "other" for one of another build.
func (l Formats) Kind(m *Model) string {
	if f, ok := l.Of(m); ok {
		return f.Kind()
	}
	return "other"
}

// OfFile returns the format of a model file by the extension of its name, whatever its case.
func (l Formats) OfFile(name string) (f Format, ok bool) {
	for _, f := range l {
		ext := f.Extension()
		if ext != "" && len(name) > len(ext) && strings.EqualFold(name[len(name)-len(ext):], ext) {
			return f, true
		}
	}
	return Format{}, false
}

// Extensions returns the ends of the names of model files.
func (l Formats) Extensions() []string {
	var ends []string
	for _, file := range l.Files() {
		ends = append(ends, path.Ext(file))
	}
	return ends
}

// Files returns the default names of model files.
func (l Formats) Files() []string {
	var names []string
	for _, f := range l {
		if f.File != "" {
			names = append(names, f.File)
		}
	}
	return names
}

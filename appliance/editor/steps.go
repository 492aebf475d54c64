package editor

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/sdk"
	"github.com/edgewise-ai/edgewise/wasm"
)

// Bounds of a step that is made in the page.
const (
	maxStepModule  = 16 << 20 // bytes
	maxStepSource  = 1 << 20  // bytes of all files together
	maxSourceFiles = 64
	sourceFolder   = "source/" // of a version, where the source of its step stands
)

// wasmMagic begins every module.
var wasmMagic = []byte("\x00asm")

// stepFiles returns the files of a step's version. Errors: Invalid with Field.
func stepFiles(module []byte, config string, source map[string]string) ([]named, error) {
	const op = "editor.stepFiles"
	invalid := func(field, format string, args ...any) error {
		return edgewise.Errorf(op, edgewise.Invalid, format, args...).WithField(field)
	}
	switch {
	case !bytes.HasPrefix(module, wasmMagic):
		return nil, invalid("wasm", "this is no WebAssembly module: it has %d bytes and does not begin like one", len(module))
	case len(module) > maxStepModule:
		return nil, invalid("wasm", "the module has %d bytes: at most %d are allowed", len(module), maxStepModule)
	case len(source) > maxSourceFiles:
		return nil, invalid("source", "the source has %d files: at most %d are allowed", len(source), maxSourceFiles)
	}
	files := []named{{wasm.DefaultFilename, module}}
	if trimmed := strings.TrimSpace(config); strings.HasPrefix(trimmed, "{") {
		files = append(files, named{"config.json", []byte(config)})
	} else if trimmed != "" {
		files = append(files, named{"config.pbtxt", []byte(config)})
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(source)) {
		if err := edgewise.CheckPath(sourceFolder + name); err != nil || path.IsAbs(name) {
			return nil, invalid("source", "%w", err)
		}
		if total += len(source[name]); total > maxStepSource {
			return nil, invalid("source", "the source has more than %d bytes", maxStepSource)
		}
		files = append(files, named{sourceFolder + name, []byte(source[name])})
	}
	return files, nil
}

// DeployStep stores a compiled step with its source. Errors: Invalid, TooLarge, and those of Models.Push.
func (e *Editor) DeployStep(ctx context.Context, name string, d admin.StepDeploy) (*admin.Pushed, error) {
	files, err := stepFiles(d.Wasm, d.Config, d.Source)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	for _, f := range files {
		size += int64(len(f.text))
	}
	return e.push(admin.WithCause(ctx, admin.CauseStep), edgewise.Upload{
		Model: name, Origin: "editor", Size: size,
		Next: texts(files...),
	}, d.Promote, d.Notes)
}

// trialName is the name of a step during its trial.
const trialName = "trial"

// TryStep runs a compiled step once, for at most a minute. A failure of the step is in the trace. Errors: Invalid,
// Exhausted.
func (e *Editor) TryStep(ctx context.Context, t admin.StepTrial) (out admin.Trace, err error) {
	const op = "editor.TryStep"
	files, err := stepFiles(t.Wasm, t.Config, nil)
	if err != nil {
		return out, err
	}
	req, err := trialRequest(t)
	if err != nil {
		return out, err
	}
	dir, err := os.MkdirTemp(e.config.Folder, trialName+"-*")
	if err != nil {
		return out, edgewise.Errorf(op, edgewise.Exhausted, "a folder for the trial cannot be made")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var paths []string
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.path), f.text, 0o640); err != nil {
			return out, edgewise.Errorf(op, edgewise.Exhausted, "file %s of the trial cannot be written", f.path)
		}
		paths = append(paths, f.path)
	}
	m, err := e.config.Models.Understand(ctx, trialName, dir, paths)
	if err != nil {
		return out, apistatus.HidePath(err, dir)
	}
	if err := sched.NewChecker(m).Check(req); err != nil {
		return out, err
	}
	return e.runStep(ctx, &edgewise.Version{ID: req.Model, Model: m, Digest: edgewise.Digest(trialName)}, dir, req)
}

func trialRequest(t admin.StepTrial) (*edgewise.Request, error) {
	req := &edgewise.Request{Model: edgewise.ModelID{Name: trialName, Version: 1}, Parameters: map[string]any{}}
	for _, in := range t.Inputs {
		kind, ok := edgewise.ParseDataType(in.Datatype)
		if !ok {
			return nil, edgewise.Errorf("editor.trialRequest", edgewise.Invalid, "input %q: there is no datatype %.20q", in.Name,
				in.Datatype)
		}
		tensor := edgewise.Tensor{Name: in.Name, Type: kind, Shape: in.Shape, Data: in.Data}
		if err := tensor.Check(); err != nil {
			return nil, edgewise.Errorf("editor.trialRequest", edgewise.Invalid, "%w", err)
		}
		req.Inputs = append(req.Inputs, tensor)
	}
	for key, value := range t.Parameters {
		switch value.(type) {
		case string, bool, float64:
			req.Parameters[key] = value
		default:
			return nil, edgewise.Errorf("editor.trialRequest", edgewise.Invalid,
				"parameter %q: want text, a number, true or false", key)
		}
	}
	return req, nil
}

// runStep loads a step, runs it once and unloads it.
func (e *Editor) runStep(ctx context.Context, v *edgewise.Version, dir string, req *edgewise.Request) (out admin.Trace,
	err error,
) {
	backend, err := e.config.Backend(v.Model)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, traceTime)
	defer cancel()
	instance, err := backend.Load(ctx, v, dir, edgewise.Device{})
	if err != nil {
		return out, apistatus.HidePath(err, dir)
	}
	defer func() { err = errors.Join(err, instance.Close()) }()
	var want []string
	for _, o := range v.Model.Output {
		want = append(want, o.Name)
	}
	t := newTracing(v.Model, req)
	step := admin.TraceStep{Model: trialName, Version: 1, State: admin.StepDone, Calls: 1}
	began := time.Now()
	result, failed := instance.Run(ctx, req.Inputs, want, edgewise.RunOptions{Parameters: req.Parameters})
	step.Duration = micro(time.Since(began))
	if failed != nil {
		step.State, step.Error = admin.StepFailed, problem(failed)
		out.Error = step.Error
	} else {
		defer result.Free()
		add(&step, edgewise.Timing{
			Input: result.Input, Infer: result.Infer, Output: result.Output, Batch: 1,
			Guest: result.Guest,
		})
		only := 0
		t.keep("output", &only, result.Outputs, nil)
	}
	out.Duration, out.Steps, out.Tensors = step.Duration, []admin.TraceStep{step}, t.tensors
	return out, nil
}

// Gallery lists the steps of the SDK: first those in AssemblyScript, which the page compiles.
func (e *Editor) Gallery() []admin.GalleryStep {
	files := sdk.Files()
	list := []admin.GalleryStep{
		galleryStep(files, "assemblyscript/example", "classify", "assemblyscript", "step.ts"),
		galleryStep(files, "template/assemblyscript", "template", "assemblyscript", "step.ts"),
	}
	entries, err := fs.ReadDir(files, "gallery")
	if err != nil {
		return list
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		language, main := "c", "step.c"
		if _, err := fs.Stat(files, "gallery/"+e.Name()+"/step.ts"); err == nil {
			language, main = "assemblyscript", "step.ts"
		}
		list = append(list, galleryStep(files, "gallery/"+e.Name(), e.Name(), language, main))
	}
	return list
}

func galleryStep(files fs.FS, dir, name, language, main string) admin.GalleryStep {
	s := admin.GalleryStep{
		Name: name, Title: strings.ReplaceAll(name, "_", " "), Language: language, Main: main,
		Source: map[string]string{},
	}
	text, err := fs.ReadFile(files, dir+"/"+main)
	if err != nil {
		return s
	}
	s.Source[main] = strings.ReplaceAll(string(text), "STEPNAME", name)
	s.Description = firstComment(s.Source[main])
	if config, err := fs.ReadFile(files, dir+"/config.pbtxt"); err == nil {
		s.Config = string(config)
	}
	return s
}

// firstComment returns the text of the comment that a source file begins with.
func firstComment(source string) string {
	var words []string
	for line := range strings.SplitSeq(source, "\n") {
		trimmed := strings.TrimSpace(line)
		if !strings.HasPrefix(trimmed, "//") && !strings.HasPrefix(trimmed, "/*") && !strings.HasPrefix(trimmed, "*") {
			break
		}
		words = append(words, strings.Fields(strings.Trim(trimmed, "/* "))...)
	}
	return strings.Join(words, " ")
}

// StepLibrary lists the files that every AssemblyScript step imports.
func (e *Editor) StepLibrary() map[string]string {
	library := map[string]string{}
	files := sdk.Files()
	entries, err := fs.ReadDir(files, "assemblyscript")
	if err != nil {
		return library
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".ts") {
			continue
		}
		if text, err := fs.ReadFile(files, "assemblyscript/"+e.Name()); err == nil {
			library["edgewise/"+e.Name()] = string(text)
		}
	}
	return library
}

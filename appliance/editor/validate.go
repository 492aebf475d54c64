package editor

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
)

const draftFile = "config.json"

// DraftModel returns the model that a draft declares, with the defaults filled in. Errors: NotFound, Invalid.
func (e *Editor) DraftModel(id string) (*edgewise.Model, error) {
	d, err := e.Draft(id)
	if err != nil {
		return nil, err
	}
	return e.draftModel(d)
}

func (e *Editor) draftModel(d admin.Draft) (*edgewise.Model, error) {
	text, err := draftConfig(d)
	if err != nil {
		return nil, err
	}
	declared, err := modelconfig.Parse(draftFile, text)
	if err != nil {
		return nil, err
	}
	return modelconfig.Ensemble(declared, d.Name, e.config.Defaults)
}

// draftConfig returns the configuration of a draft with the draft's name, the platform of ensembles, and no pinned
// versions.
func draftConfig(d admin.Draft) ([]byte, error) {
	members := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(d.Config))
	decoder.UseNumber()
	if err := decoder.Decode(&members); err != nil {
		return nil, edgewise.Errorf("editor.draftConfig", edgewise.Invalid, "the draft's configuration is no JSON object: %w",
			err)
	}
	members["name"], members["platform"] = d.Name, ensemble.Platform
	delete(members, "backend")
	if scheduling, ok := members["ensemble_scheduling"].(map[string]any); ok {
		if list, ok := scheduling["step"].([]any); ok {
			for _, s := range list {
				if step, ok := s.(map[string]any); ok {
					delete(step, "pinned")
				}
			}
		}
	}
	return json.Marshal(members)
}

// Validate lists everything that is wrong with a draft, and the tensors that are known. Errors: NotFound.
func (e *Editor) Validate(id string) (admin.Validation, error) {
	v := admin.Validation{Problems: []admin.DraftProblem{}, Tensors: []admin.Tensor{}, Steps: []admin.DraftStep{}}
	d, err := e.Draft(id)
	if err != nil {
		return v, err
	}
	m, err := e.draftModel(d)
	if err != nil {
		v.Problems = problems(err)
	}
	if m == nil || m.EnsembleScheduling == nil {
		return v, nil
	}
	known := map[string]admin.Tensor{}
	for _, t := range append(admin.NewTensors(m.Inputs()), admin.NewTensors(m.Outputs())...) {
		known[t.Name] = t
	}
	for _, s := range m.EnsembleScheduling.Step {
		step := e.draftStep(s)
		learnTensors(known, s, step)
		v.Steps = append(v.Steps, step)
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		v.Tensors = append(v.Tensors, known[name])
	}
	if _, _, err := ensemble.Pin(m, e.config.Models.Lookup); err != nil {
		v.Problems = append(v.Problems, problems(err)...)
	}
	v.Valid = len(v.Problems) == 0
	return v, nil
}

// draftStep returns what a step would run; without a version and tensors when that is not stored.
func (e *Editor) draftStep(s edgewise.EnsembleStep) admin.DraftStep {
	step := admin.DraftStep{Model: s.ModelName, Inputs: []admin.Tensor{}, Outputs: []admin.Tensor{}}
	r := e.config.Models.Lookup(s.ModelName)
	if r == nil {
		return step
	}
	number := s.ModelVersion
	if number <= 0 {
		number = r.Label(edgewise.LiveLabel)
	}
	part := r.Version(number)
	if part == nil {
		return step
	}
	step.Version, step.Ready = part.ID.Version, e.config.VersionReady(part.ID) == nil
	step.Inputs, step.Outputs = admin.NewTensors(part.Model.Inputs()), admin.NewTensors(part.Model.Outputs())
	return step
}

// learnTensors adds the inputs and outputs of a step to known, under the ensemble's names.
func learnTensors(known map[string]admin.Tensor, s edgewise.EnsembleStep, step admin.DraftStep) {
	learn := func(from []admin.Tensor, names map[string]string) {
		for _, t := range from {
			name, mapped := names[t.Name]
			if _, there := known[name]; mapped && !there {
				t.Name, t.Optional = name, false
				known[name] = t
			}
		}
	}
	learn(step.Outputs, s.OutputMap)
	learn(step.Inputs, s.InputMap)
}

var (
	stepInProblem   = regexp.MustCompile(`step (\d+)`)
	tensorInProblem = regexp.MustCompile(`tensor '([^']+)'`)
)

// problems splits an error into its lines, one problem each.
func problems(err error) []admin.DraftProblem {
	list := []admin.DraftProblem{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		p := admin.DraftProblem{Text: line}
		if found := stepInProblem.FindStringSubmatch(line); found != nil {
			if n, err := strconv.Atoi(found[1]); err == nil {
				p.Step = &n
			}
		}
		if found := tensorInProblem.FindStringSubmatch(line); found != nil {
			p.Tensor = found[1]
		}
		list = append(list, p)
	}
	return list
}

// Publish stores a draft as a version of its ensemble, and deletes the draft. Errors: NotFound, and those of
// Models.Push.
func (e *Editor) Publish(ctx context.Context, id string, p admin.Publish) (*admin.Pushed, error) {
	d, err := e.Draft(id)
	if err != nil {
		return nil, err
	}
	text, err := draftConfig(d)
	if err != nil {
		return nil, err
	}
	v, err := e.push(admin.WithCause(ctx, admin.CausePublish),
		edgewise.Upload{
			Model: d.Name, Origin: "draft", Size: int64(len(text)),
			Next: texts(named{draftFile, text}),
		}, p.Promote, p.Notes)
	if err != nil {
		return v, err
	}
	return v, e.DeleteDraft(id)
}

// push stores an upload with its notes, and makes it live unless promote is false.
func (e *Editor) push(ctx context.Context, up edgewise.Upload, promote *bool, text string) (*admin.Pushed, error) {
	if len(text) > admin.MaxNotesBytes {
		return nil, edgewise.Errorf("editor.push", edgewise.TooLarge, "the notes have %d bytes: at most %d are allowed",
			len(text), admin.MaxNotesBytes)
	}
	v, err := e.config.Models.Push(ctx, up, promote == nil || *promote)
	if v == nil {
		return nil, err
	}
	if text == "" {
		return v, err
	}
	if failed := e.config.SetNotes(v.ID, text); err == nil {
		err = failed
	}
	return v, err
}

// named is a file in memory.
type named struct {
	path string
	text []byte
}

// texts returns the Upload.Next of files in memory.
func texts(files ...named) func() (string, int64, io.Reader, error) {
	return func() (string, int64, io.Reader, error) {
		if len(files) == 0 {
			return "", 0, nil, io.EOF
		}
		f := files[0]
		files = files[1:]
		return f.path, int64(len(f.text)), bytes.NewReader(f.text), nil
	}
}

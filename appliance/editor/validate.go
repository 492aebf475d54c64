package editor

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/pattern"
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

// draftConfig returns the configuration of a draft with the draft's name, the platform of ensembles, and without what
// follows from its steps: pinned versions, and whether it is decoupled.
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
	delete(members, "model_transaction_policy")
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
	stepOfProblem   = pattern.New(`^in ensemble '[^']*', step (\d+)`)
	stepInProblem   = pattern.New(`\bstep (\d+)`)
	tensorInProblem = pattern.New(`\btensor '([^']+)'`)
	inputInProblem  = pattern.New(`\binput '([^']+)'`)
	outputInProblem = pattern.New(`\boutput '([^']+)'`)
)

// codes are the problems that clients may say in their own words; the groups of a pattern are the names.
var codes = []struct {
	code    string
	pattern pattern.Pattern
}{
	{"no_steps", pattern.New(`, 0 steps: want `)},
	{"ensemble_output", pattern.New(`^model "[^"]*": output: want at least one$`)},
	{"no_inputs", pattern.New(`: input_map has 0 entries`)},
	{"no_outputs", pattern.New(`: output_map has 0 entries`)},
	{"input_missing", pattern.New(`: input '(.+)' of the model is missing in input_map$`)},
	{"input_unused", pattern.New(`, input '(.+)' is not used by any step$`)},
	{"output_missing", pattern.New(`, no step makes output '(.+)'$`)},
	{"tensor_missing", pattern.New(`, no step makes tensor '(.+)', which `)},
	{"tensor_unused", pattern.New(`, tensor '(.+)', which .* is not used: `)},
	{"types_differ", pattern.New(`, tensor '(.+)': .* of type (\w+), but .* of type (\w+)$`)},
	{"shapes_differ", pattern.New(`, tensor '(.+)': .* of shape (\[.*\]), but .* of shape (\[.*\])$`)},
	{"circle", pattern.New(`, steps wait for each other in a circle: `)},
	{"no_model", pattern.New(`: there is no model '(.+)' on this box$`)},
	{"no_live_version", pattern.New(`: model '(.+)' has no live version: `)},
}

// problems splits an error into its lines, one problem each.
func problems(err error) []admin.DraftProblem {
	list := []admin.DraftProblem{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		list = append(list, located(line))
	}
	return list
}

// located finds out where a problem is: at the step that its text begins with, else at the one that it names last,
// where a tensor is read.
func located(line string) admin.DraftProblem {
	last := func(pattern pattern.Pattern) (name string) {
		if found := pattern.FindAllStringSubmatch(line, -1); found != nil {
			name = found[len(found)-1][1]
		}
		return name
	}
	p := admin.DraftProblem{
		Text: line, Tensor: last(tensorInProblem), Input: last(inputInProblem), Output: last(outputInProblem),
	}
	step := last(stepInProblem)
	if found := stepOfProblem.FindStringSubmatch(line); found != nil {
		step = found[1]
	}
	if n, err := strconv.Atoi(step); err == nil {
		p.Step = &n
	}
	for _, c := range codes {
		if found := c.pattern.FindStringSubmatch(line); found != nil {
			p.Code, p.Names = c.code, found[1:]
			break
		}
	}
	return p
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

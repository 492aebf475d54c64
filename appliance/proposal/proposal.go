// Package proposal reads a model's signature, and what its files say, and says which pipelines of the gallery's steps
// could make it useful: a picture or a sound in, an answer that a person reads out. It proposes and never decides, and
// proposes nothing where a wrong answer would look like a right one.
package proposal

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// For returns the pipelines that fit a complete model, the likeliest first; none when nothing does, and for ensembles
// and steps.
func For(m *edgewise.Model, formats edgewise.Formats, facts Facts) []admin.Proposal {
	if f, _ := formats.Of(m); f.Guest || m.EnsembleScheduling != nil {
		return nil
	}
	s := signature{m.Name, m.Inputs(), m.Outputs(), facts}
	for _, recognise := range []func(signature) *admin.Proposal{
		speech, faces, text, characters, spoken, sounds, yolo, queries, boxes, segments, embedding, classifier,
	} {
		if p := recognise(s); p != nil {
			return []admin.Proposal{*p}
		}
	}
	return nil
}

// signature is what the recognisers look at: shapes with their batch dimension.
type signature struct {
	name    string
	inputs  []edgewise.Spec
	outputs []edgewise.Spec
	facts   Facts
}

// picture is an input that takes one picture, or a batch of them.
type picture struct {
	tensor        string
	layout        string // nchw or nhwc
	height, width int64  // -1: any
	batch         int64
	bytes         bool // UINT8
}

// Sides of pictures, in pixels, that tell a picture from other tensors of rank four.
const (
	minSide = 32
	maxSide = 4096
)

func isSide(n int64) bool { return n == -1 || n >= minSide && n <= maxSide }

// picture returns the model's only input when that is a picture of three channels in FP32 or UINT8.
func (s signature) picture() (p picture, ok bool) {
	if len(s.inputs) != 1 || len(s.inputs[0].Shape) != 4 {
		return p, false
	}
	in := s.inputs[0]
	d := in.Shape
	p = picture{tensor: in.Name, batch: d[0], bytes: in.Type == edgewise.Uint8}
	switch {
	case in.Type != edgewise.FP32 && !p.bytes:
		return p, false
	case d[1] == 3 && isSide(d[2]) && isSide(d[3]):
		p.layout, p.height, p.width = "nchw", d[2], d[3]
	case d[3] == 3 && isSide(d[1]) && isSide(d[2]):
		p.layout, p.height, p.width = "nhwc", d[1], d[2]
	default:
		return p, false
	}
	return p, true
}

func (p picture) String() string {
	return fmt.Sprintf("input %q takes a picture of three channels (%s)", p.tensor, p.layout)
}

// sides returns the size of the picture, side where the model takes any.
func (p picture) sides(side int64) (width, height int64) {
	if p.width > 0 && p.height > 0 {
		return p.width, p.height
	}
	return side, side
}

// output returns the only output, when it is FP32 of this rank.
func (s signature) output(rank int) (o edgewise.Spec, ok bool) {
	if len(s.outputs) != 1 || s.outputs[0].Type != edgewise.FP32 || len(s.outputs[0].Shape) != rank {
		return o, false
	}
	return s.outputs[0], true
}

// names lead from a model's tensors to the ensemble's.
type names map[string]string

// pipeline is a proposal in the making.
type pipeline struct {
	s       signature
	steps   []admin.ProposalStep
	inputs  []edgewise.ModelInput
	outputs []edgewise.ModelOutput
	graph   []edgewise.EnsembleStep
}

// gallery adds a step of the gallery, which is stored under the model's name with an ending.
func (p *pipeline) gallery(step, ending string, parameters, in, out names) {
	name := p.s.name + "_" + ending
	p.steps = append(p.steps, admin.ProposalStep{Name: name, Gallery: step, Parameters: parameters})
	p.run(name, in, out)
}

func (p *pipeline) run(model string, in, out names) {
	p.graph = append(p.graph, edgewise.EnsembleStep{ModelName: model, ModelVersion: -1, InputMap: in, OutputMap: out})
}

// takes adds an input of files: n of them, -1 for any number.
func (p *pipeline) takes(name string, n int64) {
	p.inputs = append(p.inputs, edgewise.ModelInput{Name: name, DataType: edgewise.Bytes, Dims: edgewise.Shape{n}})
}

func (p *pipeline) returns(name string, t edgewise.DataType, dims ...int64) {
	p.outputs = append(p.outputs, edgewise.ModelOutput{Name: name, DataType: t, Dims: dims})
}

// The values of pixels that a model is trained with.
const (
	imageNet = iota // normalised by the mean and the deviation of ImageNet's
	fraction        // from 0 to 1
	centered        // from -1 to 1
)

// pictured begins a pipeline whose model takes a picture made by picture_input, and runs the model. n is how many
// pictures a request may have, -1 for any.
func (s signature) pictured(in picture, n int64, values int, parameters, out names) *pipeline {
	p := &pipeline{s: s}
	p.takes("image", n)
	all := names{"layout": in.layout}
	switch values {
	case fraction:
		all["mean"], all["std"] = "0,0,0", "255,255,255"
	case centered:
		all["mean"], all["std"] = "127.5,127.5,127.5", "127.5,127.5,127.5"
	}
	made := "tensor"
	if in.bytes {
		made, all["type"] = "bytes", "uint8"
		delete(all, "mean")
		delete(all, "std")
	}
	maps.Copy(all, parameters)
	p.gallery("picture_input", "input", all, names{"image": "image"}, names{made: "tensor", "map": "map"})
	p.run(s.name, names{in.tensor: "tensor"}, out)
	return p
}

// labelled adds the model's names of classes to a step's parameters.
func (s signature) labelled(parameters names) names {
	if len(s.facts.Names) > 0 {
		parameters["labels"] = strings.Join(s.facts.Names, "\n")
	}
	return parameters
}

// ranked ends a pipeline with the likeliest classes of the tensor "scores".
func (p *pipeline) ranked(parameters names) {
	p.gallery("classes", "classes", p.s.labelled(parameters), names{"scores": "scores"},
		names{"label": "label", "probability": "probability", "class": "class"})
	p.returns("label", edgewise.Bytes, -1, -1)
	p.returns("probability", edgewise.FP32, -1, -1)
	p.returns("class", edgewise.Int32, -1, -1)
}

// things ends a pipeline with a step that returns things of the picture: what of them, beside score, class and label.
func (p *pipeline) things(step string, parameters, in names, what ...string) {
	out := names{"score": "score", "class": "class", "label": "label"}
	for _, name := range what {
		out[name] = name
		switch name {
		case "box":
			p.returns(name, edgewise.FP32, -1, 4)
		case "mask":
			p.returns(name, edgewise.Uint8, -1, -1, -1)
		case "point":
			p.returns(name, edgewise.FP32, -1, -1, 3)
		case "quad":
			p.returns(name, edgewise.FP32, -1, 4, 2)
		}
	}
	p.returns("score", edgewise.FP32, -1)
	p.returns("class", edgewise.Int32, -1)
	p.returns("label", edgewise.Bytes, -1)
	p.gallery(step, step, p.s.labelled(parameters), in, out)
}

// proposal finishes a pipeline.
func (p *pipeline) proposal(task, because string, args ...any) *admin.Proposal {
	leads := func(s edgewise.EnsembleStep) bool { return s.InputMap["map"] == "map" }
	if !slices.ContainsFunc(p.graph, leads) { // an ensemble names no tensor that nothing uses
		delete(p.graph[0].OutputMap, "map")
	}
	return &admin.Proposal{
		Task: task, Because: fmt.Sprintf(because, args...), Steps: p.steps,
		Pipeline: &edgewise.Model{
			Name: p.s.name + "_pipeline", Platform: "ensemble", Input: p.inputs, Output: p.outputs,
			EnsembleScheduling: &edgewise.EnsembleScheduling{Step: p.graph},
		},
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// same tells whether two sizes may be the same.
func same(a, b int64) bool { return a == b || a == -1 || b == -1 }

// contains tells whether a text has one of some words, in any case.
func contains(text string, words ...string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// Package proposal reads a model's signature and says which pipelines of the gallery's steps could make it useful: a
// picture or a sound in, an answer that a person reads out. It proposes and never decides: where two fit, it says both,
// each with what speaks for it.
package proposal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// For returns the pipelines that fit a complete model, the likeliest first; none when nothing does, and for ensembles
// and steps.
func For(m *edgewise.Model, formats edgewise.Formats) []admin.Proposal {
	if f, _ := formats.Of(m); f.Guest || m.EnsembleScheduling != nil {
		return nil
	}
	s := read(m)
	var list []admin.Proposal
	for _, recognise := range []func(signature) *admin.Proposal{
		speech, faces, text, characters, detectorV8, detectorV5,
		classifier,
	} {
		if p := recognise(s); p != nil {
			list = append(list, *p)
		}
	}
	return list
}

// signature is what the recognisers look at: shapes with their batch dimension.
type signature struct {
	name    string
	inputs  []edgewise.Spec
	outputs []edgewise.Spec
}

func read(m *edgewise.Model) signature { return signature{m.Name, m.Inputs(), m.Outputs()} }

// picture is an input that takes one picture, or a batch of them.
type picture struct {
	tensor        string
	layout        string // nchw or nhwc
	height, width int64  // -1: any
}

// Sides of pictures, in pixels, that tell a picture from other tensors of rank four.
const (
	minSide = 32
	maxSide = 4096
)

func isSide(n int64) bool { return n == -1 || n >= minSide && n <= maxSide }

// picture returns the model's only required input when that is a picture of three channels in FP32.
func (s signature) picture() (p picture, ok bool) {
	if len(s.inputs) != 1 || s.inputs[0].Type != edgewise.FP32 || len(s.inputs[0].Shape) != 4 {
		return p, false
	}
	d := s.inputs[0].Shape
	p.tensor = s.inputs[0].Name
	switch {
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

// output returns the only output, when it is FP32 of this rank.
func (s signature) output(rank int) (o edgewise.Spec, ok bool) {
	if len(s.outputs) != 1 || s.outputs[0].Type != edgewise.FP32 || len(s.outputs[0].Shape) != rank {
		return o, false
	}
	return s.outputs[0], true
}

// Classes of a model, by which a list of scores is told from a list of something else.
const (
	minClasses = 2
	maxClasses = 100_000
	// minPlaces is from how many on the rows of a detector's head are places and not values.
	minPlaces = 500
	// maxValues is how many values a place has at most: a box, and a score for each class.
	maxValues = 4 + 1 + 1000
)

// classifier: one picture in, a score for each class out.
func classifier(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.height != in.width {
		return nil
	}
	out, ok := s.output(2)
	if !ok || out.Shape[1] < minClasses || out.Shape[1] > maxClasses {
		return nil
	}
	parameters := map[string]string{"layout": in.layout}
	if in.width > 0 {
		parameters["size"], parameters["resize"] = decimal(in.width), decimal(in.width*8/7)
	}
	before, after := admin.ProposalStep{Name: s.name + "_input", Gallery: "classifier_input", Parameters: parameters},
		admin.ProposalStep{Name: s.name + "_labels", Gallery: "labels"}
	return &admin.Proposal{
		Task:    "image classification",
		Because: fmt.Sprintf("%v, and output %q has a number for each of %d classes", in, out.Name, out.Shape[1]),
		Steps:   []admin.ProposalStep{before, after},
		Pipeline: ensemble(s.name+"_pipeline",
			[]edgewise.ModelInput{bytesIn("image", -1)},
			[]edgewise.ModelOutput{
				out2("label", edgewise.Bytes, -1, -1), out2("probability", edgewise.FP32, -1, -1),
				out2("class", edgewise.Int32, -1, -1),
			},
			step(before.Name, names{"image": "image"}, names{"tensor": "tensor"}),
			step(s.name, names{in.tensor: "tensor"}, names{out.Name: "scores"}),
			step(after.Name, names{"scores": "scores"}, names{"label": "label", "probability": "probability", "class": "class"}),
		),
	}
}

// detectorV8 and detectorV5: one picture in, the rows of a YOLO head out. Where both numbers could be places, both fit.
func detectorV8(s signature) *admin.Proposal {
	return detector(s, "v8", "[1, 4 + classes, places]",
		func(d edgewise.Shape) (values, places int64) { return d[1], d[2] }, 4)
}

func detectorV5(s signature) *admin.Proposal {
	return detector(s, "v5", "[1, places, 5 + classes]",
		func(d edgewise.Shape) (values, places int64) { return d[2], d[1] }, 5)
}

func detector(s signature, head, form string, split func(edgewise.Shape) (values, places int64),
	fixed int64,
) *admin.Proposal {
	in, ok := s.picture()
	if !ok {
		return nil
	}
	out, ok := s.output(3)
	if !ok {
		return nil
	}
	values, places := split(out.Shape)
	if values <= fixed || values > maxValues || places != -1 && places < minPlaces {
		return nil
	}
	parameters := map[string]string{"layout": in.layout}
	if in.width > 0 && in.height > 0 {
		parameters["width"], parameters["height"] = decimal(in.width), decimal(in.height)
	}
	before, after := admin.ProposalStep{Name: s.name + "_input", Gallery: "letterbox", Parameters: parameters},
		admin.ProposalStep{Name: s.name + "_boxes", Gallery: "yolo", Parameters: map[string]string{"head": head}}
	return &admin.Proposal{
		Task:    "object detection, YOLO " + head,
		Because: fmt.Sprintf("%v, and output %q is %v as %s with %d classes", in, out.Name, out.Shape, form, values-fixed),
		Steps:   []admin.ProposalStep{before, after},
		Pipeline: ensemble(s.name+"_pipeline",
			[]edgewise.ModelInput{bytesIn("image", 1)},
			[]edgewise.ModelOutput{
				out2("box", edgewise.FP32, -1, 4), out1("score", edgewise.FP32),
				out1("class", edgewise.Int32), out1("label", edgewise.Bytes),
			},
			step(before.Name, names{"image": "image"}, names{"tensor": "tensor", "map": "map"}),
			step(s.name, names{in.tensor: "tensor"}, names{out.Name: "head"}),
			step(after.Name, names{"output": "head", "map": "map"},
				names{"box": "box", "score": "score", "class": "class", "label": "label"}),
		),
	}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// The signatures of the demo's families of models, by which their heads are told from others of the same rank.
const (
	blazeSide  = 256
	blazeValue = 16 // of an anchor: a box and six points
	minLetters = 30 // classes from which a head reads characters
)

// faces: BlazeFace's picture in; scores and places of 512 and of 384 anchors out.
func faces(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.layout != "nhwc" || in.width != blazeSide || in.height != blazeSide || len(s.outputs) != 4 {
		return nil
	}
	found := map[[2]int64]string{}
	for _, o := range s.outputs {
		if o.Type != edgewise.FP32 || len(o.Shape) != 3 {
			return nil
		}
		found[[2]int64{o.Shape[1], o.Shape[2]}] = o.Name
	}
	wanted := [][2]int64{{512, 1}, {512, blazeValue}, {384, 1}, {384, blazeValue}}
	if slices.ContainsFunc(wanted, func(w [2]int64) bool { return found[w] == "" }) {
		return nil
	}
	before, after := admin.ProposalStep{Name: s.name + "_input", Gallery: "face_input"},
		admin.ProposalStep{Name: s.name + "_boxes", Gallery: "anchors"}
	return &admin.Proposal{
		Task:    "face detection, BlazeFace",
		Because: fmt.Sprintf("%v of %d pixels, and the outputs are scores and points of 512 and 384 anchors", in, blazeSide),
		Steps:   []admin.ProposalStep{before, after},
		Pipeline: ensemble(s.name+"_pipeline",
			[]edgewise.ModelInput{bytesIn("image", 1)},
			[]edgewise.ModelOutput{
				out2("box", edgewise.FP32, -1, 4), out1("score", edgewise.FP32),
				{Name: "point", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, -1, 2}},
			},
			step(before.Name, names{"image": "image"}, names{"tensor": "view", "map": "map"}),
			step(s.name, names{in.tensor: "view"}, names{
				found[wanted[0]]: "score_512", found[wanted[1]]: "value_512",
				found[wanted[2]]: "score_384", found[wanted[3]]: "value_384",
			}),
			step(after.Name, names{
				"score": "score_512", "value": "value_512", "score_2": "score_384", "value_2": "value_384",
				"map": "map",
			}, names{"box": "box", "score": "score", "point": "point"}),
		),
	}
}

// text: a picture of any size in, one plane of probabilities out.
func text(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.layout != "nchw" || in.width != -1 || in.height != -1 {
		return nil
	}
	out, ok := s.output(4)
	if !ok || out.Shape[1] != 1 {
		return nil
	}
	before, after := admin.ProposalStep{Name: s.name + "_input", Gallery: "ocr_input"},
		admin.ProposalStep{Name: s.name + "_regions", Gallery: "ocr_regions"}
	return &admin.Proposal{
		Task:    "text detection, PP-OCR",
		Because: fmt.Sprintf("%v of any size, and output %q is one plane, as of probabilities", in, out.Name),
		Steps:   []admin.ProposalStep{before, after},
		Pipeline: ensemble(s.name+"_pipeline",
			[]edgewise.ModelInput{bytesIn("image", 1)},
			[]edgewise.ModelOutput{{Name: "quad", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, 4, 2}}},
			step(before.Name, names{"image": "image"}, names{"tensor": "picture", "size": "size"}),
			step(s.name, names{in.tensor: "picture"}, names{out.Name: "heat"}),
			step(after.Name, names{"heat": "heat", "size": "size"}, names{"quad": "quad"}),
		),
	}
}

// characters: lines of text as pictures of one height in, a row of probabilities for each column out.
func characters(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.layout != "nchw" || in.height == -1 || in.width != -1 {
		return nil
	}
	out, ok := s.output(3)
	if !ok || out.Shape[2] < minLetters {
		return nil
	}
	after := admin.ProposalStep{Name: s.name + "_text", Gallery: "ctc", Parameters: map[string]string{"alphabet": ""}}
	return &admin.Proposal{
		Task: "text recognition, CTC",
		Because: fmt.Sprintf("%v of %d pixels in height, and output %q has %d classes in each column: %d characters, which "+
			"the parameter alphabet must list", in, in.height, out.Name, out.Shape[2], out.Shape[2]-1),
		Steps: []admin.ProposalStep{after},
		Pipeline: ensemble(s.name+"_pipeline",
			[]edgewise.ModelInput{{Name: "line", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, 3, in.height, -1}}},
			[]edgewise.ModelOutput{out1("text", edgewise.Bytes), out1("confidence", edgewise.FP32)},
			step(s.name, names{in.tensor: "line"}, names{out.Name: "probability"}),
			step(after.Name, names{"probability": "probability"}, names{"text": "text", "confidence": "confidence"}),
		),
	}
}

// speech: samples, a state and a rate in, a probability and the state out, as Silero VAD has them.
func speech(s signature) *admin.Proposal {
	if len(s.inputs) != 3 || len(s.outputs) != 2 {
		return nil
	}
	for _, name := range []string{"input", "state", "sr"} {
		if !slices.ContainsFunc(s.inputs, func(i edgewise.Spec) bool { return i.Name == name }) {
			return nil
		}
	}
	if !slices.ContainsFunc(s.outputs, func(o edgewise.Spec) bool { return strings.HasPrefix(o.Name, "state") }) {
		return nil
	}
	return &admin.Proposal{
		Task:    "voice activity, Silero VAD",
		Because: `the inputs are "input", "state" and "sr", and the outputs a probability and the next state`,
		Steps: []admin.ProposalStep{{
			Name: s.name + "_speech", Gallery: "speech",
			Parameters: map[string]string{"model": s.name, "infer_models": s.name, "infer_calls": "65536"},
		}},
	}
}

// names lead from a model's tensors to the ensemble's.
type names map[string]string

func ensemble(name string, in []edgewise.ModelInput, out []edgewise.ModelOutput,
	steps ...edgewise.EnsembleStep,
) *edgewise.Model {
	return &edgewise.Model{
		Name: name, Platform: "ensemble", Input: in, Output: out,
		EnsembleScheduling: &edgewise.EnsembleScheduling{Step: steps},
	}
}

func step(model string, in, out names) edgewise.EnsembleStep {
	return edgewise.EnsembleStep{ModelName: model, ModelVersion: -1, InputMap: in, OutputMap: out}
}

func bytesIn(name string, n int64) edgewise.ModelInput {
	return edgewise.ModelInput{Name: name, DataType: edgewise.Bytes, Dims: edgewise.Shape{n}}
}

func out1(name string, t edgewise.DataType) edgewise.ModelOutput {
	return edgewise.ModelOutput{Name: name, DataType: t, Dims: edgewise.Shape{-1}}
}

func out2(name string, t edgewise.DataType, rows, columns int64) edgewise.ModelOutput {
	return edgewise.ModelOutput{Name: name, DataType: t, Dims: edgewise.Shape{rows, columns}}
}

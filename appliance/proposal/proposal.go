package proposal

import (
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// Proposal is a pipeline that a model may be meant for.
type Proposal struct {
	Task     string          `json:"task"`     // such as "image classification"
	Because  string          `json:"because"`  // what of the signature speaks for it
	Steps    []Step          `json:"steps"`    // to store before the pipeline
	Pipeline *edgewise.Model `json:"pipeline"` // an ensemble of the steps and the model; nil when the only step calls the model itself
}

// Step is a step of the gallery under a name of its own, with the parameters of its configuration.
type Step struct {
	Name       string            `json:"name"`    // of the model to make of it
	Gallery    string            `json:"gallery"` // the step's name in the gallery
	Parameters map[string]string `json:"parameters"`
}

// For returns the pipelines that fit a complete model, the likeliest first; none when nothing does, and for models that are
// no ONNX models.
func For(m *edgewise.Model) []Proposal {
	if m.EnsembleScheduling != nil || m.Platform == "wasm" {
		return nil
	}
	s := read(m)
	var list []Proposal
	for _, recognise := range []func(signature) *Proposal{speech, faces, text, characters, detectorV8, detectorV5, classifier} {
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

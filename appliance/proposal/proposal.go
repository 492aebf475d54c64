package proposal

import (
	"fmt"

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

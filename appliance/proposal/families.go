package proposal

import (
	"cmp"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/pattern"
)

// The signatures of families of models, by which their heads are told from others of the same rank.
const (
	blazeSide  = 256
	blazeValue = 16 // of an anchor: a box and six points
	minLetters = 30 // classes from which a head reads characters
	maxLine    = 64 // pixels in height of a line of text
)

// faces: BlazeFace's picture in; scores and places of 512 and of 384 anchors out.
func faces(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.bytes || in.layout != "nhwc" || in.width != blazeSide || in.height != blazeSide || len(s.outputs) != 4 {
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
	p := &pipeline{s: s}
	p.takes("image", 1)
	p.gallery("face_input", "input", nil, names{"image": "image"}, names{"tensor": "view", "map": "map"})
	p.run(s.name, names{in.tensor: "view"}, names{
		found[wanted[0]]: "score_512", found[wanted[1]]: "value_512",
		found[wanted[2]]: "score_384", found[wanted[3]]: "value_384",
	})
	p.gallery("anchors", "boxes", nil, names{
		"score": "score_512", "value": "value_512", "score_2": "score_384", "value_2": "value_384", "map": "map",
	}, names{"box": "box", "score": "score", "point": "point"})
	p.returns("box", edgewise.FP32, -1, 4)
	p.returns("score", edgewise.FP32, -1)
	p.returns("point", edgewise.FP32, -1, -1, 2)
	return p.proposal("face detection, BlazeFace",
		"%v of %d pixels, and the outputs are scores and points of 512 and 384 anchors", in, blazeSide)
}

// text: a picture of any size in, one plane of probabilities out.
func text(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.bytes || in.layout != "nchw" || in.width != -1 || in.height != -1 {
		return nil
	}
	out, ok := s.output(4)
	if !ok || out.Shape[1] != 1 {
		return nil
	}
	p := &pipeline{s: s}
	p.takes("image", 1)
	p.gallery("ocr_input", "input", nil, names{"image": "image"}, names{"tensor": "picture", "size": "size"})
	p.run(s.name, names{in.tensor: "picture"}, names{out.Name: "heat"})
	p.gallery("ocr_regions", "regions", nil, names{"heat": "heat", "size": "size"}, names{"quad": "quad"})
	p.returns("quad", edgewise.FP32, -1, 4, 2)
	return p.proposal("text detection, PP-OCR", "%v of any size, and output %q is one plane, as of probabilities", in, out.Name)
}

// characters: lines of text as pictures of one height in, a row of probabilities for each column out.
func characters(s signature) *admin.Proposal {
	in, ok := s.picture()
	wide := in.width == -1 || in.width > 2*in.height && in.height <= maxLine
	if !ok || in.bytes || in.layout != "nchw" || in.height == -1 || !wide {
		return nil
	}
	out, ok := s.output(3)
	if !ok || out.Shape[2] < minLetters || !same(out.Shape[0], in.batch) {
		return nil
	}
	p := s.pictured(in, 1, centered, names{
		"fit": "line", "height": decimal(in.height), "width": decimal(max(0, in.width)), "fill": "127", "channels": "bgr",
	}, names{out.Name: "probability"})
	p.read(out.Shape[2])
	return p.proposal("text recognition, CTC", "%v of %d pixels in height, and output %q has %d classes in each column: "+
		"%d characters, which the parameter alphabet lists", in, in.height, out.Name, out.Shape[2], out.Shape[2]-1)
}

// read ends a pipeline with the text of the tensor "probability".
func (p *pipeline) read(classes int64) {
	p.gallery("ctc", "text", alphabet(p.s.facts.Names, classes), names{"probability": "probability"},
		names{"text": "text", "confidence": "confidence"})
	p.returns("text", edgewise.Bytes, -1)
	p.returns("confidence", edgewise.FP32, -1)
}

// alphabet makes parameters of the step ctc of a model's characters, with or without the first class, which is no
// character, and the last, which is the space. Without characters it is left to the user.
func alphabet(list []string, classes int64) names {
	n := int64(len(list))
	space := "false"
	switch {
	case n == classes && n > 2 && strings.TrimSpace(list[n-1]) == "":
		list, space = list[1:n-1], "true"
	case n == classes && n > 1:
		list = list[1:]
	case n+2 == classes:
		space = "true"
	case n+1 != classes || n == 0:
		return names{"alphabet": ""}
	}
	lines := make([]string, len(list))
	for i, c := range list {
		switch {
		case c == "|": // between words, as models of speech have it
			c = " "
		case len(c) > 2 && c[0] == '<' && c[len(c)-1] == '>':
			c = ""
		}
		lines[i] = c
	}
	return names{"alphabet": strings.Join(lines, "\n"), "space": space}
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

var soundName = pattern.New(`(?i)audio|sound|speech|wav|samples|input_values`)

// minSamples is how many numbers in a row are samples, whatever they are called: a quarter of a second.
const minSamples = 4000

// sound begins a pipeline whose model takes the samples of a sound, and runs the model.
func (s signature) sound(out names) *pipeline {
	if len(s.inputs) != 1 || s.inputs[0].Type != edgewise.FP32 {
		return nil
	}
	in := s.inputs[0]
	rank := len(in.Shape)
	if rank < 1 || rank > 2 || rank == 2 && !same(in.Shape[0], 1) {
		return nil
	}
	length := in.Shape[rank-1]
	if !soundName.MatchString(in.Name) && length < minSamples || length > 0 && length < minSamples/10 {
		return nil
	}
	made := "samples"
	if rank == 1 {
		made = "wave"
	}
	rate := cmp.Or(s.facts.Metadata["sample_rate"], s.facts.Metadata["sampling_rate"], "16000")
	p := &pipeline{s: s}
	p.takes("sound", 1)
	p.gallery("sound_input", "input", names{"rate": rate, "length": decimal(max(0, length))}, names{"sound": "sound"},
		names{made: "samples"})
	p.run(s.name, names{in.Name: "samples"}, out)
	return p
}

// sounds: the samples of a sound in, a number for each class out, for each of its frames perhaps.
func sounds(s signature) *admin.Proposal {
	var out *edgewise.Spec
	for i, o := range s.outputs {
		classes := o.Type == edgewise.FP32 && len(o.Shape) == 2 && o.Shape[1] >= minClasses
		if classes && (len(s.outputs) == 1 || className.MatchString(o.Name)) && out == nil {
			out = &s.outputs[i]
		}
	}
	if out == nil || vectorName.MatchString(out.Name) {
		return nil
	}
	p := s.sound(names{out.Name: "scores"})
	if p == nil {
		return nil
	}
	p.s.facts.Names = fitting(s.facts.Names, out.Shape[1])
	p.ranked(names{"rows": "mean"})
	return p.proposal("classification of sounds", "input %q takes samples, and output %q has a number for each of %d classes",
		s.inputs[0].Name, out.Name, out.Shape[1])
}

// spoken: the samples of speech in, a row of numbers for characters for each column out.
func spoken(s signature) *admin.Proposal {
	out, ok := s.output(3)
	if !ok || int64(len(s.facts.Names)) != out.Shape[2] {
		return nil
	}
	p := s.sound(names{out.Name: "probability"})
	if p == nil {
		return nil
	}
	p.read(out.Shape[2])
	return p.proposal("speech to text, CTC", "input %q takes samples, and output %q has %d characters in each column",
		s.inputs[0].Name, out.Name, out.Shape[2])
}

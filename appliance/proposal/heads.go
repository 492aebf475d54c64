package proposal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

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

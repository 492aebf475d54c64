package proposal

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/pattern"
)

// Classes of a model, by which a list of scores is told from a list of something else.
const (
	minClasses = 2
	maxClasses = 100_000
)

// classifier: one picture in, a score for each class out.
func classifier(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || s.facts.Filters {
		return nil
	}
	out, ok := s.output(2)
	if !ok || out.Shape[0] != in.batch || out.Shape[1] < minClasses || out.Shape[1] > maxClasses {
		return nil
	}
	named := int64(len(s.facts.Names)) == out.Shape[1]
	if in.height != in.width && !named {
		return nil
	}
	values, parameters := imageNet, names{}
	if s.facts.task() == "classify" {
		values = fraction
	}
	if in.width > 0 && in.height > 0 {
		parameters["width"], parameters["height"] = decimal(in.width), decimal(in.height)
		parameters["resize"] = decimal(max(in.width, in.height) * 8 / 7)
		if values == fraction {
			parameters["resize"] = decimal(max(in.width, in.height))
		}
	}
	s.facts.Names = fitting(s.facts.Names, out.Shape[1])
	p := s.pictured(in, each(in), values, parameters, names{out.Name: "scores"})
	p.ranked(names{})
	return p.proposal("image classification", "%v, and output %q has a number for each of %d classes", in, out.Name, out.Shape[1])
}

// each is how many pictures a request may have.
func each(in picture) int64 {
	if in.batch == 1 {
		return 1
	}
	return -1
}

// fitting returns names that are as many as the classes, none when they are not.
func fitting(list []string, classes int64) []string {
	if int64(len(list)) == classes {
		return list
	}
	return nil
}

// vectors are usual lengths of embeddings, which no usual set of classes has.
const (
	minVector  = 128
	vectorStep = 64
)

var (
	vectorName = pattern.New(`(?i)embed|feature|pooler|descriptor|^fc1$|^vector`)
	className  = pattern.New(`(?i)class|logit|softmax|prob|label|score`)
)

// embedding: one picture in, a vector out.
func embedding(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || s.facts.Filters {
		return nil
	}
	out, ok := s.output(2)
	if !ok || out.Shape[0] != in.batch || int64(len(s.facts.Names)) == out.Shape[1] || className.MatchString(out.Name) {
		return nil
	}
	if !vectorName.MatchString(out.Name) && (out.Shape[1] < minVector || out.Shape[1]%vectorStep != 0) {
		return nil
	}
	width, height := in.sides(224)
	values := imageNet
	if width == 112 && height == 112 { // as models of faces have it
		values = centered
	}
	p := s.pictured(in, each(in), values, names{"fit": "stretch", "width": decimal(width), "height": decimal(height)},
		names{out.Name: "embedding"})
	p.returns("embedding", edgewise.FP32, -1, -1)
	return p.proposal("an embedding of pictures", "%v, and output %q is a vector of %d numbers", in, out.Name, out.Shape[1])
}

// segments: one picture in, a score of each class for each pixel out.
func segments(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || len(s.outputs) == 0 || len(s.outputs) > 2 {
		return nil
	}
	out := s.outputs[0]
	if len(s.outputs) == 2 && (out.Name != "out" || s.outputs[1].Name != "aux") {
		return nil // but torchvision's, whose second output serves its training
	}
	if out.Type != edgewise.FP32 || len(out.Shape) != 4 || out.Shape[1] < minClasses || out.Shape[1] > 1000 {
		return nil
	}
	width, height := in.sides(512)
	named := int64(len(s.facts.Names)) == out.Shape[1]
	whole := same(out.Shape[2], in.height) && same(out.Shape[3], in.width) && out.Shape[1] > 4 // colours are not classes
	if !named && !whole && !contains(out.Name, "seg", "mask", "logit") {
		return nil // key points have such planes, too
	}
	parameters := names{}
	if s.facts.Names = fitting(s.facts.Names, out.Shape[1]); named && contains(s.facts.Names[0], "background") {
		parameters["background"] = "0"
	}
	p := s.pictured(in, 1, imageNet, names{"fit": "stretch", "width": decimal(width), "height": decimal(height)},
		names{out.Name: "scores"})
	p.things("segments", parameters, names{"scores": "scores"}, "mask")
	return p.proposal("semantic segmentation", "%v, and output %q is %v: a number for each of %d classes at each pixel", in,
		out.Name, out.Shape, out.Shape[1])
}

package proposal

import (
	"fmt"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

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

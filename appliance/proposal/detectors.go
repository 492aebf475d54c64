package proposal

import (
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/pattern"
)

const (
	// maxRows is how many rows a head without overlaps has at most; 300 are usual.
	maxRows = 1000
	// maxValues is how many values a place has at most: a box, a score for each class, and more.
	maxValues = 4 + 1 + 1000 + 64
)

// places tells whether n may be the places of a YOLO head, of which each cell of its grids has some.
func (p picture) places(n, each int64) bool {
	if p.width <= 0 || p.height <= 0 || n <= 0 {
		return n == -1 || n >= 500
	}
	for _, strides := range [][]int64{{8, 16, 32}, {8, 16, 32, 64}, {4, 8, 16, 32}, {16, 32}} {
		var cells int64
		for _, s := range strides {
			cells += (p.width / s) * (p.height / s)
		}
		if cells*each == n {
			return true
		}
	}
	return false
}

// head is what a YOLO head has: its form, and what follows the classes of each place.
type head struct {
	form, more, points string
	classes            int64 // 0: each row names its class
}

// yolo: one picture in, the places or the rows of a YOLO head out, with prototypes of masks perhaps.
func yolo(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.bytes || s.facts.task() == "classify" {
		return nil
	}
	var out, proto *edgewise.Spec
	for i, o := range s.outputs {
		switch {
		case o.Type == edgewise.FP32 && len(o.Shape) == 3 && out == nil:
			out = &s.outputs[i]
		case o.Type == edgewise.FP32 && len(o.Shape) == 4 && proto == nil && o.Shape[1] > 0:
			proto = &s.outputs[i]
		default:
			return nil
		}
	}
	if out == nil || !same(out.Shape[0], 1) {
		return nil
	}
	h, ok := s.head(in, *out, proto)
	if !ok {
		return nil
	}
	if h.classes > 0 {
		s.facts.Names = fitting(s.facts.Names, h.classes)
	}
	return s.detector(in, *out, proto, h)
}

// head recognises the form of a head. Where two fit and would be drawn differently, none does.
func (s signature) head(in picture, out edgewise.Spec, proto *edgewise.Spec) (h head, ok bool) {
	rows, values := out.Shape[1], out.Shape[2]
	switch {
	case rows > 4 && rows < maxValues && in.places(values, 1):
		h.form = "v8"
		return h, s.classesOf(&h, rows-4, proto)
	case rows > 0 && rows <= maxRows && values >= 6 && values < maxValues && !in.places(rows, 1) && !in.places(rows, 3):
		h.form = "end2end"
		extra, ok := s.more(&h, values-6, proto, 0)
		return h, ok && extra == values-6
	case values > 0 && values < maxValues && in.places(rows, 3):
		h.form = "v5"
		return h, s.classesOf(&h, values-5, proto)
	case values > 0 && values < maxValues && rows > 0 && in.places(rows, 1) && out.Name == "outputs":
		h.form = "v5" // YOLO v6: a place for each cell, and the score of an object
		return h, s.classesOf(&h, values-5, proto)
	}
	return h, false
}

// classesOf splits the values of a place behind its box into classes and more.
func (s signature) classesOf(h *head, values int64, proto *edgewise.Spec) bool {
	extra, ok := s.more(h, values, proto, int64(len(s.facts.Names)))
	h.classes = values - extra
	return ok && h.classes > 0 && (len(s.facts.Names) == 0 || int64(len(s.facts.Names)) == h.classes)
}

var (
	keypoints = pattern.New(`^\s*[\[(]\s*(\d+)\s*,\s*([23])\s*[\])]\s*$`)
	person    = int64(17 * 3) // the key points of a person in COCO
)

// more finds out what stands behind the classes, and how many values it takes. classes is how many names there are.
func (s signature) more(h *head, values int64, proto *edgewise.Spec, classes int64) (extra int64, ok bool) {
	h.more = "none"
	task := s.facts.task()
	switch {
	case proto != nil:
		h.more = "masks"
		return proto.Shape[1], task == "" || task == "segment"
	case task == "segment":
		return 0, false
	case task == "obb":
		h.more = "angle"
		return 1, true
	case task == "pose":
		h.more, h.points = "points", "17x3"
		extra = person
		if m := keypoints.FindStringSubmatch(s.facts.Metadata["kpt_shape"]); m != nil {
			points, _ := strconv.ParseInt(m[1], 10, 16)
			each, _ := strconv.ParseInt(m[2], 10, 16)
			h.points, extra = m[1]+"x"+m[2], points*each
		}
		return extra, true
	case task == "detect":
		return 0, true
	case h.form == "end2end":
		return 0, values == 0
	case classes == 0:
		return 0, values != 1+person // 52 classes, or a person's key points
	case values == classes+1:
		h.more = "angle"
		return 1, true
	case values == classes+person:
		h.more, h.points = "points", "17x3"
		return person, true
	}
	return 0, values == classes
}

func (s signature) detector(in picture, out edgewise.Spec, proto *edgewise.Spec, h head) *admin.Proposal {
	width, height := in.sides(640)
	tensors, inputs := names{out.Name: "head"}, names{"output": "head", "map": "map"}
	if proto != nil {
		tensors[proto.Name], inputs["proto"] = "proto", "proto"
	}
	p := s.pictured(in, 1, fraction, names{"fit": "letterbox", "width": decimal(width), "height": decimal(height)}, tensors)
	parameters := names{"head": h.form}
	task, what := "object detection", []string{"box"}
	switch h.more {
	case "masks":
		task, what = "instance segmentation", []string{"box", "mask"}
	case "points":
		task, what = "pose estimation", []string{"box", "point"}
		parameters["points"] = h.points
	case "angle":
		task, what = "detection of turned boxes", []string{"quad"}
	}
	if h.more != "none" {
		parameters["more"] = h.more
	}
	p.things("detector", parameters, inputs, what...)
	if h.form == "end2end" {
		return p.proposal(task+", YOLO end to end", "%v, and output %q is %v: at most %d rows of a box, a score and a class", in,
			out.Name, out.Shape, out.Shape[1])
	}
	return p.proposal(task+", YOLO "+h.form, "%v, and output %q is %v: a box and %d classes at each place", in, out.Name,
		out.Shape, h.classes)
}

// queries: one picture in, for each of some hundred queries a box and a number for each class out, as DETR has them.
func queries(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok || in.bytes || len(s.outputs) != 2 {
		return nil
	}
	box, logits := s.outputs[0], s.outputs[1]
	if len(box.Shape) == 3 && box.Shape[2] != 4 {
		box, logits = logits, box
	}
	for _, o := range []edgewise.Spec{box, logits} {
		if o.Type != edgewise.FP32 || len(o.Shape) != 3 || !same(o.Shape[0], 1) {
			return nil
		}
	}
	rows, classes, n := box.Shape[1], logits.Shape[2], int64(len(s.facts.Names))
	if box.Shape[2] != 4 || rows != logits.Shape[1] || rows > maxRows || classes < 2 || !contains(box.Name, "box") {
		return nil
	}
	activation, values := "sigmoid", fraction
	switch {
	case n > 0 && n+1 == classes, n == 0 && rows == 100:
		activation, values = "softmax", imageNet
	case n > 0 && n != classes, n == 0 && rows != 300 && rows != 900:
		return nil
	}
	width, height := in.sides(640)
	size := names{"width": decimal(width), "height": decimal(height)}
	p := s.pictured(in, 1, values, names{"fit": "stretch", "width": size["width"], "height": size["height"]},
		names{box.Name: "place", logits.Name: "logits"})
	p.things("detections", names{
		"form": "center", "unit": "fraction", "activation": activation, "width": size["width"], "height": size["height"],
	}, names{"box": "place", "logits": "logits", "map": "map"}, "box")
	return p.proposal("object detection, DETR", "%v, and outputs %q and %q are a box and numbers for %d classes of each query", in,
		box.Name, logits.Name, classes)
}

// boxes: one picture in; boxes, their scores and their classes out, as SSD and EfficientDet have them after they dropped
// what overlaps.
func boxes(s signature) *admin.Proposal {
	in, ok := s.picture()
	if !ok {
		return nil
	}
	var box, score, class string
	rows, number := false, false
	for _, o := range s.outputs {
		name := strings.ToLower(o.Name)
		switch {
		case o.Type == edgewise.FP32 && len(o.Shape) == 3 && o.Shape[2] == 4 && contains(name, "box") && box == "":
			box, rows = o.Name, contains(name, "detection_boxes")
		case o.Type == edgewise.FP32 && len(o.Shape) == 2 && contains(name, "score") && score == "":
			score = o.Name
		case o.Type == edgewise.FP32 && len(o.Shape) == 2 && contains(name, "class") && class == "":
			class = o.Name
		case o.Type == edgewise.Int64 && len(o.Shape) == 2 && contains(name, "class", "label") && class == "":
			class, number = o.Name, true
		case len(o.Shape) == 1 && contains(name, "num"):
		default:
			return nil
		}
	}
	if box == "" || score == "" || class == "" {
		return nil
	}
	width, height := in.sides(640)
	parameters := names{"width": decimal(width), "height": decimal(height), "first": "1"}
	if rows {
		parameters["form"], parameters["unit"] = "rows", "fraction"
	}
	if n := s.facts.Names; len(n) > 0 && (contains(n[0], "background") || n[0] == "???") {
		parameters["first"] = "0"
	}
	inputs := names{"box": "place", "score": "sure", "class": "kind", "map": "map"}
	if number {
		delete(inputs, "class")
		inputs["number"] = "kind"
	}
	p := s.pictured(in, 1, imageNet, names{"fit": "stretch", "width": decimal(width), "height": decimal(height)},
		names{box: "place", score: "sure", class: "kind"})
	p.things("detections", parameters, inputs, "box")
	return p.proposal("object detection, SSD", "%v, and outputs %q, %q and %q are boxes with their scores and classes", in, box,
		score, class)
}

package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of rules.
const (
	MaxRules    = 256
	maxNameSize = 256 // bytes of an output's name
	maxK        = 1000
	maxDistance = 1_000_000
	maxColumn   = 1_000
)

// The defaults of rules. The tolerances cover what another device or another number of threads changes in the sums of
// one model; they are not meant to cover another model.
const (
	defaultAbsolute     = 1e-4
	defaultRelative     = 1e-3
	defaultHalfAbsolute = 1e-2 // of the types of 16 bits
	defaultHalfRelative = 1e-2
	defaultCosine       = 0.999
	defaultOverlap      = 0.8
)

// Default returns the rule of an output that has none: a tolerance for floating-point numbers, equality for all others.
func Default(output string, t edgewise.DataType) admin.CompareRule {
	if t.IsFloat() {
		return admin.CompareRule{Output: output, Kind: admin.CompareTolerance}
	}
	return admin.CompareRule{Output: output, Kind: admin.CompareExact}
}

// tolerances returns what numbers of a type may differ by when the rule does not say it.
func tolerances(t edgewise.DataType) (absolute, relative float64) {
	switch {
	case !t.IsFloat():
		return 0, 0
	case t.Size() == 2:
		return defaultHalfAbsolute, defaultHalfRelative
	}
	return defaultAbsolute, defaultRelative
}

// uses are the fields that rules of each kind may have.
var uses = map[string][]string{
	admin.CompareExact:     {"share"},
	admin.CompareTolerance: {"share", "absolute", "relative"},
	admin.CompareTopK:      {"share", "absolute", "k"},
	admin.CompareCosine:    {"share", "minimum"},
	admin.CompareBoxes:     {"share", "minimum", "boxes"},
	admin.CompareText:      {"share", "relative", "distance"},
	admin.CompareIgnore:    {},
}

// Check reports the first reason why rules cannot be used. Errors: Invalid, with the field; TooLarge.
func Check(rules []admin.CompareRule) error {
	if len(rules) > MaxRules {
		return edgewise.Errorf("compare.Check", edgewise.TooLarge, "%d rules: at most %d are allowed", len(rules), MaxRules)
	}
	for i, r := range rules {
		field, err := checkRule(r)
		if err == nil && slices.ContainsFunc(rules[:i], func(o admin.CompareRule) bool { return o.Output == r.Output }) {
			field, err = "output", fmt.Errorf("there is another rule of the same output")
		}
		if err != nil {
			return edgewise.Errorf("compare.Check", edgewise.Invalid, "rule of output %.100q: %w", r.Output, err).
				WithField(fmt.Sprintf("rules[%d].%s", i, field))
		}
	}
	return nil
}

func checkRule(r admin.CompareRule) (field string, err error) {
	if r.Output == "" || len(r.Output) > maxNameSize {
		return "output", fmt.Errorf("the output's name has %d bytes: want 1 to %d", len(r.Output), maxNameSize)
	}
	fields, known := uses[r.Kind]
	if !known {
		return "kind", fmt.Errorf("the kind is %.40q: want exact, tolerance, top_k, cosine, boxes, text or ignore", r.Kind)
	}
	for _, f := range []struct {
		name      string
		value     float64
		most      float64
		isInteger bool
	}{
		{"absolute", r.Absolute, math.MaxFloat64, false},
		{"relative", r.Relative, math.MaxFloat64, false},
		{"k", float64(r.K), maxK, true},
		{"minimum", r.Minimum, 1, false},
		{"distance", float64(r.Distance), maxDistance, true},
		{"share", r.Share, 1, false},
	} {
		switch {
		case f.value != 0 && !slices.Contains(fields, f.name):
			return f.name, fmt.Errorf("the kind %s has no %s", r.Kind, f.name)
		case !(f.value >= 0 && f.value <= f.most): // not a number is refused, too
			return f.name, fmt.Errorf("%s is %v: want 0 to %v", f.name, f.value, f.most)
		}
	}
	if r.Boxes == nil {
		return "", nil
	}
	if r.Kind != admin.CompareBoxes {
		return "boxes", fmt.Errorf("the kind %s has no boxes", r.Kind)
	}
	return checkBoxes(*r.Boxes)
}

// The forms of boxes.
const (
	formCorners = "corners"
	formCenter  = "center"
)

func checkBoxes(b admin.Boxes) (field string, err error) {
	if !slices.Contains([]string{"", formCorners, formCenter}, b.Form) {
		return "boxes.form", fmt.Errorf("the form of boxes is %.40q: want corners or center", b.Form)
	}
	for _, part := range []struct {
		name, output string
		column       int
	}{{"class", b.Classes, b.ClassColumn}, {"score", b.Scores, b.ScoreColumn}} {
		switch {
		case len(part.output) > maxNameSize:
			return "boxes." + part.name, fmt.Errorf("the %s names an output of %d bytes: at most %d are allowed", part.name,
				len(part.output), maxNameSize)
		case part.column != 0 && part.output != "":
			return "boxes." + part.name + "_column", fmt.Errorf("the %s is in a column or in an output, not in both", part.name)
		case part.column != 0 && (part.column < boxNumbers || part.column > maxColumn):
			return "boxes." + part.name + "_column", fmt.Errorf("the %s is in column %d: want %d to %d", part.name, part.column,
				boxNumbers, maxColumn)
		}
	}
	if !(b.Score >= -math.MaxFloat64 && b.Score <= math.MaxFloat64) {
		return "boxes.score", fmt.Errorf("the least score is %v: want a number", b.Score)
	}
	return "", nil
}

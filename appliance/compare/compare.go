// Package compare tells how the answer of a model differs from an expected one, by rules for its outputs.
//
// All functions are pure. What they take is bounded by the tensors: an output of n elements takes time in proportion to
// n, but for boxes and texts, whose work has bounds of its own.
package compare

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Answers compares the outputs of an answer with the expected ones. An output without a rule is compared by the default
// of its data type; see Default. An output that is not expected is not compared. rules have passed Check.
func Answers(rules []admin.CompareRule, want, got []edgewise.Tensor) admin.AnswerComparison {
	all := admin.AnswerComparison{Agrees: true, Outputs: []admin.OutputComparison{}}
	for i := range want {
		rule, found := ruleOf(rules, want[i].Name)
		if !found && partOfBoxes(rules, want[i].Name) {
			continue // compared with the boxes that it belongs to
		}
		if !found {
			rule = Default(want[i].Name, want[i].Type)
		}
		if rule.Kind == admin.CompareIgnore {
			continue
		}
		c := &comparison{rule: rule, wanted: want, answered: got, want: &want[i], got: output(got, want[i].Name)}
		one := c.run()
		all.Agrees = all.Agrees && one.Agrees
		all.Outputs = append(all.Outputs, one)
	}
	return all
}

// ruleOf returns the rule of an output.
func ruleOf(rules []admin.CompareRule, name string) (rule admin.CompareRule, found bool) {
	i := slices.IndexFunc(rules, func(r admin.CompareRule) bool { return r.Output == name })
	if i < 0 {
		return rule, false
	}
	return rules[i], true
}

// partOfBoxes tells whether an output holds the classes or the scores of an output of boxes.
func partOfBoxes(rules []admin.CompareRule, name string) bool {
	return slices.ContainsFunc(rules, func(r admin.CompareRule) bool {
		return r.Boxes != nil && (r.Boxes.Classes == name || r.Boxes.Scores == name)
	})
}

// output returns the tensor with a name, nil when there is none.
func output(list []edgewise.Tensor, name string) *edgewise.Tensor {
	i := slices.IndexFunc(list, func(t edgewise.Tensor) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// comparison is one output while it is compared.
type comparison struct {
	rule             admin.CompareRule
	wanted, answered []edgewise.Tensor // all outputs
	want, got        *edgewise.Tensor
	found            admin.OutputComparison
}

func (c *comparison) run() admin.OutputComparison {
	c.found = admin.OutputComparison{Output: c.want.Name, Kind: c.rule.Kind}
	if err := c.compare(); err != nil {
		c.found.Reason = err.Error()
		return c.found
	}
	const rounding = 1e-9 // so that 0.29 of 100 is 29
	allowed := int64(c.rule.Share*float64(c.found.Compared) + rounding)
	if c.found.Agrees = c.found.Different <= allowed; !c.found.Agrees {
		c.found.Reason = fmt.Sprintf("%d of %d differ, %d may", c.found.Different, c.found.Compared, allowed)
	}
	return c.found
}

// compare fills what was found. The error says why the outputs cannot be compared.
func (c *comparison) compare() error {
	if c.got == nil {
		return fmt.Errorf("the answer has no output %q", c.want.Name)
	}
	if err := c.want.Check(); err != nil {
		return fmt.Errorf("the expected output is not well-formed: %w", err)
	}
	if err := c.got.Check(); err != nil {
		return fmt.Errorf("the output is not well-formed: %w", err)
	}
	switch c.rule.Kind {
	case admin.CompareExact:
		return c.exact()
	case admin.CompareTolerance:
		return c.tolerance()
	case admin.CompareTopK:
		return c.topK()
	case admin.CompareCosine:
		return c.cosine()
	case admin.CompareBoxes:
		return c.boxes()
	case admin.CompareText:
		return c.text()
	}
	return fmt.Errorf("there is no kind %q", c.rule.Kind)
}

// sameShape reports shapes that differ.
func (c *comparison) sameShape() error {
	if !c.want.Shape.Equal(c.got.Shape) {
		return fmt.Errorf("the shape is %v, want %v", c.got.Shape, c.want.Shape)
	}
	return nil
}

// numbers reports outputs that do not hold numbers.
func (c *comparison) numbers() error {
	for _, t := range []*edgewise.Tensor{c.want, c.got} {
		if t.Type == edgewise.Bytes {
			return fmt.Errorf("the rule %q takes numbers, got %v", c.rule.Kind, t.Type)
		}
	}
	return nil
}

// identical tells whether both outputs are the same, byte for byte.
func (c *comparison) identical() bool {
	return c.want.Type == c.got.Type && c.want.Shape.Equal(c.got.Shape) && bytes.Equal(c.want.Data, c.got.Data)
}

const (
	maxWorst     = 8   // differences that are listed for an output
	maxTextBytes = 200 // of the texts of one of them
)

// same notes that one of what is compared is within the rule, though it may differ by something.
func (c *comparison) same(by float64) {
	c.found.Compared++
	c.found.Largest = max(c.found.Largest, finite(by))
}

// differs notes that one of what is compared differs. describe is called only if it is among the worst.
func (c *comparison) differs(by float64, describe func() admin.ElementDifference) {
	by = finite(by)
	c.same(by)
	c.found.Different++
	list := c.found.Worst
	if len(list) == maxWorst && list[maxWorst-1].By >= by {
		return
	}
	d := describe()
	d.Want, d.Got, d.By = shorten(d.Want), shorten(d.Got), by
	at := slices.IndexFunc(list, func(other admin.ElementDifference) bool { return other.By < by })
	if at < 0 {
		at = len(list)
	}
	list = slices.Insert(list, at, d)
	c.found.Worst = list[:min(len(list), maxWorst)]
}

// finite returns a difference as a number that JSON has: what is no number, or beyond all, is the largest number.
func finite(by float64) float64 {
	if math.IsNaN(by) || by > math.MaxFloat64 {
		return math.MaxFloat64
	}
	return by
}

// shorten cuts a text that is too long for a report, at a character.
func shorten(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	const more = "…"
	cut := maxTextBytes - len(more)
	for cut > 0 && text[cut]&0xc0 == 0x80 {
		cut--
	}
	return text[:cut] + more
}

// indexOf returns the index of the element at a place of a tensor's data.
func indexOf(shape edgewise.Shape, place int64) []int64 {
	index := make([]int64, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d], place = place%shape[d], place/shape[d]
	}
	return index
}

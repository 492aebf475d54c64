package admin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// maxSignatureChanges bounds the changes that are kept with a deployment; a comparison of the versions has all.
const maxSignatureChanges = 32

// SignatureChanges compares the tensors of two versions, breaking changes first. Without a version there are none.
func SignatureChanges(from, to *edgewise.Version) []Difference {
	if from == nil || to == nil {
		return nil
	}
	list := SignatureDifferences(from.Model, to.Model)
	slices.SortStableFunc(list, func(a, b Difference) int {
		switch {
		case a.Breaking == b.Breaking:
			return 0
		case a.Breaking:
			return -1
		}
		return 1
	})
	return list[:min(len(list), maxSignatureChanges)]
}

// FormatDifferences writes changes for the log.
func FormatDifferences(list []Difference) string {
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = d.String()
	}
	return strings.Join(texts, "; ")
}

// SignatureDifferences compares the tensors of two models; see SignatureChanges.
func SignatureDifferences(from, to *edgewise.Model) []Difference {
	list := tensorDifferences("input", from.Inputs(), to.Inputs())
	list = append(list, tensorDifferences("output", from.Outputs(), to.Outputs())...)
	if from.Decoupled() != to.Decoupled() { // clients ask for one response otherwise than for many
		list = append(list, Difference{
			What: "decoupled", Change: "changed", From: strconv.FormatBool(from.Decoupled()),
			To: strconv.FormatBool(to.Decoupled()), Breaking: true,
		})
	}
	return list
}

// tensorDifferences compares what clients send, or get. A change that clients of the old version may fail with is
// breaking: an input that was removed, or added and is required, an output that was removed, another type or shape,
// and an input that is not optional any more.
func tensorDifferences(what string, from, to []edgewise.Spec) []Difference {
	var list []Difference
	text := func(s edgewise.Spec) string {
		if s.Optional {
			return fmt.Sprintf("%v %v, optional", s.Type, s.Shape)
		}
		return fmt.Sprintf("%v %v", s.Type, s.Shape)
	}
	find := func(list []edgewise.Spec, name string) int {
		return slices.IndexFunc(list, func(s edgewise.Spec) bool { return s.Name == name })
	}
	for _, s := range from {
		i := find(to, s.Name)
		switch {
		case i < 0:
			list = append(list, Difference{What: what + " " + s.Name, Change: "removed", From: text(s), Breaking: true})
		case text(s) != text(to[i]):
			breaking := s.Type != to[i].Type || !slices.Equal(s.Shape, to[i].Shape) || s.Optional
			list = append(list, Difference{
				What: what + " " + s.Name, Change: "changed", From: text(s), To: text(to[i]), Breaking: breaking,
			})
		}
	}
	for _, s := range to {
		if find(from, s.Name) < 0 {
			breaking := what == "input" && !s.Optional
			list = append(list, Difference{What: what + " " + s.Name, Change: "added", To: text(s), Breaking: breaking})
		}
	}
	return list
}

// Proposal is a pipeline that a model may be meant for.
type Proposal struct {
	Task    string         `json:"task"`    // such as "image classification"
	Because string         `json:"because"` // what of the signature speaks for it
	Steps   []ProposalStep `json:"steps"`   // to store before the pipeline
	// an ensemble of the steps and the model; nil when the only step calls the model itself
	Pipeline *edgewise.Model `json:"pipeline,omitempty"`
}

// ProposalStep is a step of the gallery under a name of its own, with the parameters of its configuration.
type ProposalStep struct {
	Name       string            `json:"name"`    // of the model to make of it
	Gallery    string            `json:"gallery"` // the step's name in the gallery
	Parameters map[string]string `json:"parameters,omitempty"`
}

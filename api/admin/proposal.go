package admin

import "github.com/edgewise-ai/edgewise"

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

package kserve

import (
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// ForwardHeader makes a request's header one of its parameters. Errors: Invalid for the name of a parameter that the
// protocol defines, TooLarge for too many parameters.
func ForwardHeader(req *edgewise.Request, name, value string) error {
	switch {
	case strings.HasPrefix(name, "triton_"), name == "headers", slices.Contains(knownNames[:], name):
		return invalid("Header '%.100s' is reserved for Triton usage and cannot be forwarded: it is the name of a "+
			"parameter of the protocol", name)
	case len(req.Parameters) >= DefaultMaxParameters:
		return tooLarge(DefaultMaxParameters, "the request has more than %d custom parameters, forwarded headers included",
			DefaultMaxParameters)
	}
	if req.Parameters == nil {
		req.Parameters = map[string]any{}
	}
	req.Parameters[name] = value
	return nil
}

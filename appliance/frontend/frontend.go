// Package frontend is what the REST and the gRPC frontend of the inference protocol have in common: the parts of the
// appliance that they call, tensors in shared memory, and classes.
package frontend

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Engine answers the requests of the protocol. All methods are safe for concurrent use. A name or version that does not
// exist is NotFound with the texts of the protocol, such as "Request for unknown model: 'cat' is not found".
type Engine interface {
	// Answer answers req, delivers the answer and counts the request by how that ended. Errors: those of Inferer, and of
	// x.Deliver; the response has been released then. Each request of a client is passed once, to Answer or to Refuse.
	Answer(ctx context.Context, req *edgewise.Request, x edgewise.Exchange) (*edgewise.Response, error)
	// Refuse counts a request to id that could not be read, or may not run. took is the time since it arrived.
	Refuse(ctx context.Context, id edgewise.ModelID, took time.Duration, err error)
	// Live tells whether the appliance is live.
	Live() bool
	// Ready tells whether the appliance accepts requests and every wanted model is ready.
	Ready() bool
	// Version returns what the model is, and which of its versions are ready, ascending; only the version of id when id has
	// one. Errors: NotFound, Unavailable.
	Version(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error)
	// VersionReady returns nil when id is ready. Errors: NotFound, Unavailable.
	VersionReady(id edgewise.ModelID) error
	// Index returns the status of every version that was ever loaded, and for each model without one a Status with nothing
	// but ID.Name.
	Index() []edgewise.Status
	// Load makes the model ready and waits for it; o stands in place of what its folder says. Errors: NotFound, Invalid,
	// Unsupported, Unavailable (clients may not load), Exhausted, Deadline, Canceled, Internal.
	Load(ctx context.Context, name string, o edgewise.LoadOverride) error
	// Unload stops serving the model and returns before requests in progress have ended; with dependents also the
	// models that only it uses. Errors: NotFound, Unavailable (clients may not unload).
	Unload(ctx context.Context, name string, dependents bool) error
	// Statistics returns the statistics of id's version, of all ready versions of its model without a version, and of all
	// models when id is zero. Errors: Invalid for a model that is unknown or not ready.
	Statistics(id edgewise.ModelID) ([]kserve.VersionStatistics, error)
}

// Logging reads and changes the log settings. All methods are safe for concurrent use.
type Logging interface {
	// Settings returns the settings in force.
	Settings() kserve.LogSettings
	// Change applies all of c, until the process ends, or nothing, and returns the settings in force. Errors: Unsupported,
	// Invalid.
	Change(c kserve.LogChange) (kserve.LogSettings, error)
}

// Deps are the parts of the appliance that both frontends call. AllocBody, Labelled, Labels, Logging and
// Tracing may be nil.
type Deps struct {
	Engine  Engine
	Shared  SharedMemory
	Name    string // of the server, in its metadata
	Version string // of the server, in its metadata

	// AllocBody returns n bytes, aligned to 64, in which the tensors of a request to id need no copy; nil when none are
	// free. The caller calls free once. Another process can change them at any time.
	AllocBody func(id edgewise.ModelID, n int) (data []byte, free func())
	// Labelled returns the version that a label of a model points to now, 0 without such a model or label. Nil: models have
	// no labels.
	Labelled func(model, label string) int64
	// Labels returns the labels of an output's elements, by index. Nil, or returning nil: elements have no labels.
	Labels func(id edgewise.ModelID, output string) []string
	// Logging reads and changes the log settings.
	Logging Logging
	// Tracing traces requests.
	Tracing edgewise.Tracing
}

// Classes describes the classes of the version id, for outputs that req wants as classes.
func (d *Deps) Classes(req *kserve.Inference, id edgewise.ModelID) (c kserve.Classes) {
	if !slices.ContainsFunc(req.Answers, func(a kserve.Answer) bool { return a.Classification > 0 }) {
		return c
	}
	if v, _, err := d.Engine.Version(id); err == nil {
		c.Batched = v.Model.MaxBatchSize > 0
	}
	if d.Labels != nil {
		c.Labels = func(output string) []string { return d.Labels(id, output) }
	}
	return c
}

// Restriction is a group of the protocol's APIs that are answered only to requests with a header, or metadata, of a
// value.
type Restriction struct {
	APIs       []string // by Triton's names, such as "model-repository"
	Key, Value string
}

// HeaderPattern compiles a pattern of names of headers or metadata, which ignores case unless it says otherwise; nil for
// the empty pattern.
func HeaderPattern(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	return regexp.Compile("(?i)" + pattern)
}

// Fill gives a value of the configuration that is 0 its preset. Error: it is below 0.
func Fill[T int | int64 | time.Duration](key string, value *T, preset T) error {
	if *value < 0 {
		return fmt.Errorf("%s is %v: want a positive value", key, *value)
	}
	if *value == 0 {
		*value = preset
	}
	return nil
}

package grpcapi

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Engine is what the service needs of the box. All methods are safe for concurrent use. A name or version that does not
// exist is NotFound with the texts of the protocol, such as "Request for unknown model: 'cat' is not found".
type Engine interface {
	edgewise.Frontends
	// Live tells whether the box works at all.
	Live() bool
	// Ready tells whether the box takes requests and every wanted model is ready.
	Ready() bool
	// Version returns what the model is, and which of its versions are ready, ascending; only the one asked for when
	// id names one. Errors: NotFound, Unavailable.
	Version(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error)
	// VersionReady returns nil when requests to id are answered. Errors: NotFound, Unavailable.
	VersionReady(id edgewise.ModelID) error
	// Index returns the status of every version that was ever loaded, and for each model of which none was a Status
	// with nothing but ID.Name.
	Index() []edgewise.Status
	// Load makes the model ready and waits for it; o stands in place of what its folder says. Errors: NotFound, Invalid,
	// Unsupported, Unavailable (clients may not load), Exhausted, Deadline, Canceled, Internal.
	Load(ctx context.Context, name string, o edgewise.LoadOverride) error
	// Unload stops serving the model and returns before requests in progress have ended; with dependents also the
	// models that only it uses. Errors: NotFound, Unavailable (clients may not unload).
	Unload(ctx context.Context, name string, dependents bool) error
	// Statistics returns what was measured of id's version, of all its ready versions when it names none, and of
	// everything when id is zero. Errors: Invalid for a model that is unknown or not ready.
	Statistics(id edgewise.ModelID) ([]kserve.VersionStatistics, error)
}

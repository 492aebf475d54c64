package httpapi

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Engine is what the inference protocol's routes need of the box. All methods are safe for concurrent use. A name or
// version that does not exist is NotFound with the texts of the protocol, such as
// "Request for unknown model: 'cat' is not found".
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
	// AllocBody returns n bytes, aligned to 64, in which the tensors of a request to id need no copy; nil when none are
	// free. The caller calls free once. Another process can change them at any time.
	AllocBody(id edgewise.ModelID, n int) (data []byte, free func())
	// Load makes the model ready and waits for it; o stands in place of what its folder says. Errors: NotFound, Invalid,
	// Unsupported, Unavailable (clients may not load), Exhausted, Deadline, Canceled, Internal.
	Load(ctx context.Context, name string, o edgewise.LoadOverride) error
	// Unload stops serving the model and returns before requests in progress have ended; with dependents also the
	// models that only it uses. Errors: NotFound, Unavailable (clients may not unload).
	Unload(ctx context.Context, name string, dependents bool) error
	// Statistics returns what was measured of id's version, of all its ready versions when it names none, and of
	// everything when id is zero. Errors: Invalid for a model that is unknown or not ready.
	Statistics(id edgewise.ModelID) ([]VersionStatistics, error)
}

// VersionStatistics is what was measured of one version.
type VersionStatistics = kserve.VersionStatistics

// Library is what the administration routes need of the box. All methods are safe for concurrent use. What they return
// is shared and not modified.
type Library interface {
	// Room tells whether an upload of size bytes could begin now, before its body is asked for. Errors: Exhausted.
	Room(size int64) error
	// Push stores a new version and, with promote, points the label live to it. It pulls the files of up, and the
	// version exists only if up.Next ended in io.EOF. Errors: those of up, Invalid, TooLarge, Exists, Unsupported,
	// Exhausted, Corrupt.
	Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error)
	// Records returns every model, by name.
	Records() []*edgewise.Record
	// Record returns one model. Errors: NotFound.
	Record(name string) (*edgewise.Record, error)
	// SetLabel points a label to a version, making it if need be. Errors: NotFound, Invalid.
	SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error)
	// Rollback points a label to where it pointed before. Errors: NotFound, Conflict when there is nowhere to go.
	Rollback(ctx context.Context, name, label string) (admin.LabelMove, error)
	// RemoveLabel forgets a label. Errors: NotFound, Conflict for the label live.
	RemoveLabel(ctx context.Context, name, label string) error
	// DeleteVersion deletes one version. Errors: NotFound, Conflict while a label points to it.
	DeleteVersion(ctx context.Context, id edgewise.ModelID) error
	// DeleteModel deletes a model with all its versions. Errors: NotFound.
	DeleteModel(ctx context.Context, name string) error
	// Inspect returns what is known of a version's files. Errors: NotFound, Unsupported.
	Inspect(ctx context.Context, id edgewise.ModelID) (*edgewise.Inspection, error)
	// Propose returns pipelines that a version may be meant for, the likeliest first. Errors: NotFound.
	Propose(id edgewise.ModelID) ([]admin.Proposal, error)
}

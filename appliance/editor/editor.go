// Package editor serves the page's editors of ensembles and steps: drafts, their validation and traced runs, the
// gallery, and compiled steps.
package editor

import (
	"context"
	"log/slog"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// Bounds of drafts.
const (
	// DraftsBucket is where drafts are stored, as JSON under their ids.
	DraftsBucket = "drafts"
	// MaxDrafts bounds how many there are.
	MaxDrafts = 100

	maxDraftBytes = 512 << 10 // of a configuration and its layout together
	maxDraftID    = 64        // hexadecimal digits
)

// Models is what the editor needs of the registry of models.
type Models interface {
	// Lookup returns what is stored about a model, nil when nothing is.
	Lookup(name string) *edgewise.Record
	// Understand returns the model that the files of a folder declare. Errors: Invalid, Unsupported, Corrupt.
	Understand(ctx context.Context, name, dir string, files []string) (*edgewise.Model, error)
	// Push stores an upload as a version, and with promote makes it live. The result is not nil when only the latter
	// failed.
	Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error)
}

// Config is what an Editor works with.
type Config struct {
	Documents edgewise.Documents
	Models    Models
	// VersionReady returns nil when requests to a version are answered.
	VersionReady func(id edgewise.ModelID) error
	// Independent tells whether the rows of a loaded version's batches do not depend on each other.
	Independent func(id edgewise.ModelID) bool
	// Backend returns the backend that runs a model. Errors: Unsupported.
	Backend  func(m *edgewise.Model) (edgewise.Backend, error)
	SetNotes func(id edgewise.ModelID, text string) error // about a version
	Infer    edgewise.Inferer                             // runs the steps of a traced draft
	Defaults modelconfig.Defaults
	MaxQueue int    // requests that wait for a traced draft
	Folder   string // for the files of steps during their trial
	Logger   *slog.Logger
}

// Editor makes ensembles and steps. All methods are safe for concurrent use.
type Editor struct{ config Config }

// New returns an Editor.
func New(c Config) *Editor { return &Editor{c} }

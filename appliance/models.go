package appliance

import (
	"context"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/editor"
)

// storedModels is what the services see of the models that are stored and served.
type storedModels struct{ app *App }

var _ editor.Models = storedModels{}

// newEditor makes the editor of the page.
func (a *App) newEditor() *editor.Editor {
	return editor.New(editor.Config{
		Documents: a.documents, Models: storedModels{a}, SetNotes: a.notes.Set, Infer: a.manager,
		Defaults: defaults(a.config),
		MaxQueue: a.config.Engine.MaxQueue, Folder: filepath.Join(a.config.DataDir, uploadsFolder), Logger: a.logger,
	})
}

// Record returns what is stored about a model, nil when nothing is.
func (m storedModels) Record(name string) *edgewise.Record { return m.app.registry.Lookup(name) }

// VersionReady returns nil when requests to a version are answered.
func (m storedModels) VersionReady(id edgewise.ModelID) error { return m.app.engine.VersionReady(id) }

// Independent tells whether the rows of a loaded version's batches do not depend on each other.
func (m storedModels) Independent(id edgewise.ModelID) bool { return m.app.manager.Independent(id) }

// Understand returns the model that the files of a folder declare.
func (m storedModels) Understand(ctx context.Context, name, dir string, files []string) (*edgewise.Model, error) {
	return m.app.registry.Understand(ctx, name, dir, files)
}

// Backend returns the backend that runs a model.
func (m storedModels) Backend(model *edgewise.Model) (edgewise.Backend, error) {
	return m.app.serving.Backend(model)
}

// Push stores an upload as a version.
func (m storedModels) Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error) {
	return m.app.registry.Push(ctx, up, promote)
}

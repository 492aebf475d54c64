package appliance

import (
	"context"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	"github.com/edgewise-ai/edgewise/appliance/importer"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/serving"
)

// uploadsFolder holds the uploads in progress, in the data folder.
const uploadsFolder = "uploads"

// openImporter opens the uploads that are in progress, and what turns them into versions.
func (a *App) openImporter() (err error) {
	a.importer, err = importer.New(importer.Config{
		Folder: filepath.Join(a.config.DataDir, uploadsFolder), Version: Version,
		MaxBytes: int64(a.config.Upload.MaxBytes), MaxFiles: a.config.Upload.MaxFiles,
		Formats: Formats(), Store: a.store, Documents: a.documents, Models: a.registry, History: a.history, Settings: a.box,
		Fit: func(ctx context.Context, parameterBytes int64) admin.Fit {
			return a.catalog.Fit(ctx, parameterBytes*serving.MemoryFactor)
		},
		FollowLoad:    a.serving.Follow,
		VersionReady:  func(id edgewise.ModelID) error { return a.engine.VersionReady(id) },
		Buckets:       map[string]int{registry.NotesBucket: maxBackupNotes, editor.DraftsBucket: editor.MaxDrafts},
		CheckDocument: checkDocument, ReloadAccounts: a.accounts.Reload, SetNotes: a.notes.Set, Publish: a.publish,
		Logger: a.logger,
	})
	return err
}

// maxBackupNotes bounds the notes that a restore may leave.
const maxBackupNotes = 100_000

// newEditor makes the editor of the page.
func (a *App) newEditor() *editor.Editor {
	return editor.New(editor.Config{
		Documents: a.documents, Models: a.registry, SetNotes: a.notes.Set, Infer: a.manager, Defaults: defaults(a.config),
		VersionReady: func(id edgewise.ModelID) error { return a.engine.VersionReady(id) },
		Independent:  a.manager.Independent, Backend: a.serving.Backend, MaxQueue: a.config.Engine.MaxQueue,
		Folder: filepath.Join(a.config.DataDir, uploadsFolder), Logger: a.logger,
	})
}

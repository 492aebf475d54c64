package appliance

import (
	"context"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/importer"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// uploadsFolder holds the uploads in progress, in the data folder.
const uploadsFolder = "uploads"

// receiver is what the REST frontend sees of package uploads.
type receiver struct {
	*uploads.Uploads
	most int64
}

var _ administration.Uploads = receiver{}

// MaxBytes bounds a file.
func (r receiver) MaxBytes() int64 { return r.most }

// Create begins an upload of p.
func (r receiver) Create(p *edgewise.Principal, n administration.NewUpload) (admin.Upload, error) {
	return r.Uploads.Create(uploads.File{
		Owner: p.Actor(), Length: n.Length, Metadata: n.Metadata, Filename: n.Filename, Model: n.Model,
		SHA256: n.SHA256, Notes: n.Notes, Activate: n.Activate,
	})
}

// Write stores bytes of an upload.
func (r receiver) Write(ctx context.Context, p *edgewise.Principal, id string, offset int64, body administration.UploadBody,
	checksum []byte,
) (admin.Upload, error) {
	return r.Uploads.Write(ctx, p, id, offset, uploads.Body(body), checksum)
}

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

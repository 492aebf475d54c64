package appliance

import (
	"context"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// uploadsFolder is where uploads that are on their way stand in the data folder.
const uploadsFolder = "uploads"

// receiver is what the door sees of package uploads.
type receiver struct {
	*uploads.Uploads
	most int64
}

var _ httpapi.Uploads = receiver{}

// MaxBytes bounds a file.
func (r receiver) MaxBytes() int64 { return r.most }

// Create begins an upload.
func (r receiver) Create(p *edgewise.Principal, n httpapi.NewUpload) (admin.Upload, error) {
	return r.Uploads.Create(uploads.File{
		Owner: p.Actor(), Length: n.Length, Metadata: n.Metadata, Filename: n.Filename, Model: n.Model, SHA256: n.SHA256, Notes: n.Notes, Activate: n.Activate,
	})
}

// Write takes bytes of an upload.
func (r receiver) Write(ctx context.Context, p *edgewise.Principal, id string, offset int64, body httpapi.UploadBody, checksum []byte) (admin.Upload, error) {
	return r.Uploads.Write(ctx, p, id, offset, uploads.Body(body), checksum)
}

// openUploads opens the uploads that are on their way.
func (a *App) openUploads() (err error) {
	a.jobs = newJobs(a)
	a.uploads, err = uploads.Open(uploads.Config{
		Dir: filepath.Join(a.config.DataDir, uploadsFolder), MaxBytes: int64(a.config.Upload.MaxBytes), Room: a.store.Room, Log: a.logger.With("part", "uploads"), Finished: a.jobs.begin,
	})
	return err
}

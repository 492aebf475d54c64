// Package importer turns bytes from outside into versions and documents: uploads and the jobs that are made of them,
// folders that are imported at the start, backups and their restore.
package importer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
	"github.com/edgewise-ai/edgewise/store"
)

// Models is what the importer needs of the registry of models. registry.Registry describes the methods.
type Models interface {
	Records() []*edgewise.Record
	Lookup(name string) *edgewise.Record
	Changeable(op, name string) error
	Understand(ctx context.Context, name, dir string, files []string) (*edgewise.Model, error)
	InspectFolder(ctx context.Context, dir string, m *edgewise.Model) (*edgewise.Inspection, error)
	CheckEnsemble(m *edgewise.Model, beside []string) error
	Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error)
	GoLive(ctx context.Context, id edgewise.ModelID, numbered bool) (admin.LabelMove, error)
	SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error)
	Unload(ctx context.Context, name string) error
	Refresh(ctx context.Context, name string) error
	Settle(ctx context.Context, name string) error
	Tell(id edgewise.ModelID, what string)
}

// History is the history of deployments. registry.History describes the methods.
type History interface {
	List(model string, limit int) ([]admin.Deployment, error)
	Note(ctx context.Context, e admin.Deployment, began time.Time, failed error)
	Append(tx edgewise.DocumentsTx, e admin.Deployment) error
}

// Settings are those of the box.
type Settings interface {
	// Settings returns the current ones.
	Settings() admin.Settings
	// Check returns an error when s is out of bounds. Errors: Invalid with Field.
	Check(s admin.Settings) error
	// Put stores settings, Adopt makes the stored ones the current ones.
	Put(tx edgewise.DocumentsTx, s admin.Settings) error
	Adopt(s admin.Settings)
}

// Goldens are the examples that documents of a backup name. golden.Goldens describes the methods.
type Goldens interface {
	BackupFiles(buckets map[string]map[string][]byte) []edgewise.File
	Examples(buckets map[string]map[string][]byte) []edgewise.File
	ReadExample(f edgewise.File) ([]byte, error)
	CheckRestore(buckets map[string]map[string][]byte, has func(model string) bool) error
	Restore(list []edgewise.File, read func(edgewise.File) ([]byte, error), store func() error) error
}

// Config is what an Importer works with.
type Config struct {
	Folder    string           // of uploads that are in progress
	Version   string           // of the program
	MaxBytes  int64            // of an upload, packed and unpacked
	MaxFiles  int              // of an upload, but for backups
	Formats   edgewise.Formats // of models
	Store     *store.Store
	Documents edgewise.Documents
	Models    Models
	History   History
	Settings  Settings
	Goldens   func() Goldens // which are opened later
	// Differences compares two versions: their tensors, declarations and files.
	Differences func(from, to *edgewise.Version) []admin.Difference
	// Fetch makes a folder with the files of the version that a reference of a registry names, and returns the reference by digest.
	// progress is told bytes. Errors: Invalid, NotFound, Denied, Unavailable, Corrupt, TooLarge, Unsupported, Exhausted.
	Fetch func(ctx context.Context, reference, folder string, progress func(done, total int64)) (pinned string, err error)
	// Fit tells whether a model with so many bytes of parameters finds room in memory.
	Fit func(ctx context.Context, parameterBytes int64) admin.Fit
	// FollowLoad calls warming when the load of a version comes to its warm-up, until forget is called.
	FollowLoad func(id edgewise.ModelID, warming func()) (forget func())
	// VersionReady returns nil when requests to a version are answered.
	VersionReady func(id edgewise.ModelID) error
	// Buckets are the buckets of documents that every backup has, with the most documents of each.
	Buckets map[string]int
	// CheckDocument returns an error when a document may not stand under a key of a bucket. Errors: Invalid.
	CheckDocument  func(bucket, key string, value []byte) error
	ReloadAccounts func() error                                 // after a restore of accounts
	SetNotes       func(id edgewise.ModelID, text string) error // about a version
	Publish        func(topic string, message any)              // tells listeners of a change
	Logger         *slog.Logger
}

// Importer turns uploads into versions, one job at a time; the others wait. All methods are safe for concurrent use.
type Importer struct {
	config  Config
	uploads *uploads.Uploads
	base    context.Context // of all work; ends with stop
	stop    context.CancelFunc
	turn    chan struct{} // holds one token
	// fetching is full while a registry is asked
	fetching chan struct{}
	work     sync.WaitGroup

	mu  sync.Mutex // guards all and the jobs in it
	all map[string]*job
}

// New opens the uploads that are in progress. Jobs of uploads that have arrived begin with Start of Uploads. Errors:
// Internal (the folder).
func New(c Config) (*Importer, error) {
	im := &Importer{config: c, turn: make(chan struct{}, 1), fetching: make(chan struct{}, 1), all: map[string]*job{}}
	im.base, im.stop = context.WithCancel(context.Background())
	im.turn <- struct{}{}
	var err error
	im.uploads, err = uploads.Open(uploads.Config{
		Dir: c.Folder, Formats: c.Formats, MaxBytes: c.MaxBytes, Room: c.Store.Room, Log: c.Logger.With("part", "uploads"), Finished: im.begin,
	})
	return im, err
}

// Uploads returns the uploads that jobs are made of.
func (im *Importer) Uploads() *uploads.Uploads { return im.uploads }

// Close cancels all work and waits for it. What was not finished begins again at the next start.
func (im *Importer) Close() {
	im.stop()
	im.work.Wait()
}

// Sweep removes the uploads that are too old and are not in use, and cancels their jobs.
func (im *Importer) Sweep() { im.Expire(im.uploads.Sweep(im.keeps)) }

// ImportFolders stores the versions of repository folders and makes the highest one of each model live when it is new.
// Versions that are stored already are skipped, so that it can be repeated at every start. Failures are logged, and the
// others are imported, until ctx ends.
func (im *Importer) ImportFolders(ctx context.Context, folders []string) {
	for _, folder := range folders {
		versions, err := repository.Dir(folder).Versions()
		if err != nil {
			im.config.Logger.Error("import", "folder", folder, "error", err)
			continue
		}
		for i, v := range versions {
			if ctx.Err() != nil {
				return
			}
			last := i+1 == len(versions) || versions[i+1].ID.Name != v.ID.Name
			if err := im.safely(v.ID.String(), func() error { return im.importVersion(ctx, v, last) }); err != nil {
				im.config.Logger.Error("import", "folder", folder, "model", v.ID.Name, "version", v.ID.Version, "error", err)
			}
		}
	}
}

func (im *Importer) importVersion(ctx context.Context, v repository.Version, promote bool) error {
	if record := im.config.Models.Lookup(v.ID.Name); record != nil {
		if stored := record.Version(v.ID.Version); stored != nil {
			return v.SameAs(stored.Files)
		}
	}
	_, err := im.push(admin.WithCause(ctx, admin.CauseImport), v, "import", promote)
	return err
}

// push stores a version.
func (im *Importer) push(ctx context.Context, v repository.Version, origin string, promote bool) (*admin.Pushed, error) {
	upload, files := v.Upload(origin)
	pushed, err := im.config.Models.Push(ctx, upload, promote)
	if closing := files.Close(); err == nil {
		err = closing
	}
	return pushed, err
}

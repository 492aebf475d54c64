package appliance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/alerts"
	"github.com/edgewise-ai/edgewise/appliance/catalog"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	"github.com/edgewise-ai/edgewise/appliance/fleet"
	"github.com/edgewise-ai/edgewise/appliance/golden"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/importer"
	"github.com/edgewise-ai/edgewise/appliance/monitor"
	"github.com/edgewise-ai/edgewise/appliance/recordings"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/remote"
	"github.com/edgewise-ai/edgewise/appliance/rollout"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/appliance/tune"
	"github.com/edgewise-ai/edgewise/host"
	"github.com/edgewise-ai/edgewise/store/files"
	"github.com/edgewise-ai/edgewise/wasm"
)

// monitorSources returns what the monitor looks at.
func (a *App) monitorSources() monitor.Sources {
	return monitor.Sources{
		Statuses: a.manager.Statuses, Statistics: a.manager.Statistics, Logger: a.logger,
		Complete: func(tick *admin.Tick) {
			a.processors.Read()
			tick.Ready, tick.CPU, tick.Memory = a.engine.Ready(), a.processors.Last(), machineMemory().Box
		},
	}
}

// newCatalog makes the catalog of the stored models.
func (a *App) newCatalog() *catalog.Catalog {
	return catalog.New(catalog.Config{
		Registry: a.registry, Notes: a.notes, Store: a.store, History: a.history.List,
		Index:    func() []edgewise.Status { return a.engine.Index() },
		Statuses: a.manager.Statuses, Version: a.manager.Version, Statistics: a.manager.Statistics,
		ONNXFile: a.onnx.File, Choice: a.serving.Choice, MaxMemoryBytes: serving.ModelMemory(a.config),
		AvailableMemory: func() int64 { return host.AvailableMemory("/") }, Publish: a.publish,
	})
}

// modelCatalog is what the REST frontend sees of the catalog, and of backups.
type modelCatalog struct {
	*catalog.Catalog
	app *App
}

var _ administration.Catalog = modelCatalog{}

// Backup writes a backup of this box.
func (m modelCatalog) Backup(ctx context.Context, w io.Writer, accounts bool) error {
	return m.app.importer.WriteBackup(ctx, w, accounts)
}

// BackupName returns a name for a backup of this box that is made now.
func (m modelCatalog) BackupName() string {
	name := strings.ReplaceAll(m.app.box.Settings().Name, "/", "_")
	return fmt.Sprintf("%s-%s.edgewise-backup", name, time.Now().UTC().Format("20060102-150405"))
}

// uploadsFolder holds the uploads in progress, in the data folder.
const uploadsFolder = "uploads"

// openImporter opens the uploads that are in progress, and what turns them into versions.
func (a *App) openImporter() (err error) {
	a.importer, err = importer.New(importer.Config{
		Folder: filepath.Join(a.config.DataDir, uploadsFolder), Version: Version,
		MaxBytes: int64(a.config.Upload.MaxBytes), MaxFiles: a.config.Upload.MaxFiles,
		Formats: a.formats, Store: a.store, Documents: a.documents, Models: a.registry, History: a.history, Settings: a.box,
		Fit: func(ctx context.Context, parameterBytes int64) admin.Fit {
			return a.catalog.Fit(ctx, parameterBytes*serving.MemoryFactor)
		},
		Differences: catalog.Differences, FollowLoad: a.serving.Follow,
		VersionReady: func(id edgewise.ModelID) error { return a.engine.VersionReady(id) },
		Goldens:      func() importer.Goldens { return a.goldens },
		Buckets: map[string]int{
			registry.NotesBucket: maxBackupNotes, editor.DraftsBucket: editor.MaxDrafts, golden.Bucket: golden.MaxRestored,
			golden.SettingsBucket: maxBackupNotes, rollout.SettingsBucket: maxBackupNotes,
		},
		CheckDocument: checkDocument, ReloadAccounts: a.accounts.Reload, SetNotes: a.notes.Set, Publish: a.publish,
		Logger: a.logger, Fetch: a.registries().Fetch,
	})
	a.fleet = fleet.New(fleet.Config{
		Fleet: a.config.Fleet, Version: Version, Documents: a.documents, Models: a.registry, Rollouts: a.rollouts, Box: a.box,
		Remote: a.registries(), Install: a.importer.Install, CheckPlan: rollout.CheckSettings, Post: alerts.Post,
		Logger: a.logger.With("part", "fleet"),
	})
	return err
}

func (a *App) registries() remote.Registries {
	return remote.Registries{
		Config: a.config, Version: Version, Logger: a.logger, Record: a.registry.Record, Dir: a.store.Dir, Box: a.box.Settings,
	}
}

// recordingsFolder holds recorded requests, in the data folder.
const recordingsFolder = "recordings"

// openRecordings opens the recorded requests.
func (a *App) openRecordings() (err error) {
	a.recordings, err = recordings.Open(recordings.Config{
		Folder: filepath.Join(a.config.DataDir, recordingsFolder), Documents: a.documents,
		Tap: a.monitor.Tap, Room: a.store.Room, Logger: a.logger.With("part", "recordings"),
		Record: func(name string) (*edgewise.Record, error) { return a.registry.Record(name) }, // it is opened later
	})
	return err
}

// maxBackupNotes bounds the notes that a restore may leave, and the settings of models of each kind.
const maxBackupNotes = 100_000

// newEditor makes the editor of the page.
func (a *App) newEditor() *editor.Editor {
	return editor.New(editor.Config{
		Documents: a.documents, Models: a.registry, SetNotes: a.notes.Set, Infer: a.nested(), Defaults: a.defaults(),
		VersionReady: func(id edgewise.ModelID) error { return a.engine.VersionReady(id) },
		Independent:  a.manager.Independent, Backend: a.serving.Backend, MaxQueue: a.config.Engine.MaxQueue,
		Folder: filepath.Join(a.config.DataDir, uploadsFolder), Logger: a.logger,
	})
}

// goldensFolder holds the examples of goldens, in the data folder.
const goldensFolder = "goldens"

// openGoldens opens the requests with expected answers.
func (a *App) openGoldens() error {
	examples, err := files.Open(filepath.Join(a.config.DataDir, goldensFolder), int64(a.config.Store.ReserveBytes))
	if err != nil {
		return err
	}
	a.goldens = golden.New(golden.Config{
		Documents: a.documents, Files: examples, Infer: a.manager, Record: a.registry.Record, Trial: a.registry.Trial,
		Changed: func(id edgewise.ModelID) {
			a.publish("model", admin.ModelEvent{Model: id.Name, Version: id.Version, What: "goldens"})
		},
		Logger: a.logger.With("part", "goldens"),
	})
	return nil
}

// samples returns the goldens that the versions of a model are measured with.
func (a *App) samples(model string) ([]*edgewise.Request, []admin.CompareRule, error) {
	return a.goldens.Requests(model, maxSamples)
}

// maxSamples bounds the goldens that a version is measured with, in bytes.
const maxSamples = 64 << 20

// newWasm makes the backend of steps. What a step asks other models goes through their queues, as a client's requests do.
func newWasm(a *App, c config.Config, budget *cores.Budget, logger *slog.Logger) *wasm.Backend {
	return wasm.New(wasm.Config{
		CacheDir: filepath.Join(c.DataDir, "cache", "wasm"), CacheBytes: int64(c.Wasm.CacheBytes), MaxMemory: int64(c.Wasm.MaxMemoryBytes),
		RunTimeout: c.Wasm.RunTimeout, Infer: a.nested(), Cores: budget, Logger: logger.With("part", "wasm"),
	})
}

// followRenamings lets keys, alerts, recordings, notes, goldens and drafts know models by their new names.
func (a *App) followRenamings() {
	a.names.Follow(registry.NamesConfig{
		Renamings: a.store.Renamings, Documents: a.documents, Logger: a.logger.With("part", "registry"),
		Outside: []func(name, to string) error{a.accounts.RenameModel, a.alerts.RenameModel, a.recordings.RenameModel},
		Inside: []func(tx edgewise.DocumentsTx, name, to string) error{
			registry.RenameNotes, editor.RenameModel, golden.RenameModel,
			rollout.RenameModel, tune.RenameModel,
		},
	})
}

// storedVersions lists every version that is stored.
func (a *App) storedVersions() (list []*edgewise.Version) {
	for _, r := range a.store.Records() {
		list = append(list, r.Versions...)
	}
	return list
}

// sweepSteps removes the machine code of steps that are not stored any more.
func (a *App) sweepSteps() {
	stored := map[edgewise.Digest]bool{}
	for _, v := range a.storedVersions() {
		for _, f := range v.Files {
			stored[f.Digest] = true
		}
	}
	if err := a.steps.Sweep(func(d edgewise.Digest) bool { return stored[d] }); err != nil {
		a.logger.Warn("machine code of steps that are gone cannot be removed", "error", err)
	}
}

// nested answers the requests that models send to each other.
func (a *App) nested() edgewise.Inferer { return inferer(func() edgewise.Inferer { return a.inside }) }

// controller lets models load and unload others. The engine is built after the backends.
type controller struct{ app *App }

// Load makes a model ready.
func (c controller) Load(ctx context.Context, name string, o edgewise.LoadOverride) error {
	return c.app.engine.Load(ctx, name, o)
}

// Unload stops serving a model.
func (c controller) Unload(ctx context.Context, name string, dependents bool) error {
	return c.app.engine.Unload(ctx, name, dependents)
}

// VersionReady returns nil when requests to id are answered.
func (c controller) VersionReady(id edgewise.ModelID) error { return c.app.engine.VersionReady(id) }

// inferer looks up the Inferer at each request: the manager is built after the backends.
type inferer func() edgewise.Inferer

// Infer answers a request.
func (i inferer) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return i().Infer(ctx, req)
}

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/store"
)

const maxManifest = 256 << 20 // bytes of a backup's manifest

// maxBackupFiles bounds the files of a backup.
const maxBackupFiles = 100_000

// prepareRestore reads a backup and says what it holds. Nothing is changed.
func (j *jobs) prepareRestore(ctx context.Context, made *job, data, folder string) error {
	err := j.step(made, stepUnpack, func() error {
		limits := uploads.Limits{Bytes: int64(j.app.config.Upload.MaxBytes), Files: maxBackupFiles, Room: j.app.store.Room}
		return uploads.Unpack("tar", data, folder, limits, func(done int64) { j.progress(made, stepUnpack, done, made.file.Length) })
	})
	if err != nil {
		return err
	}
	return j.step(made, stepInspect, func() error {
		m, err := readBackup(folder)
		if err != nil {
			return err
		}
		if err := j.app.checkBackup(ctx, m); err != nil {
			return err
		}
		j.change(made, func(shown *admin.Job) {
			made.backup = m
			shown.Understood = &admin.Understood{Models: []admin.UnderstoodModel{}, Backup: m.summary(made.file.Length)}
		})
		return nil
	})
}

func readBackup(folder string) (*backup, error) {
	const op = "appliance.readBackup"
	text, err := store.ReadBounded(filepath.Join(folder, backupManifest), maxManifest)
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "this is no backup: it has no %s", backupManifest)
	}
	want, err := store.ReadBounded(filepath.Join(folder, backupDigest), 2*sha256.Size)
	sum := sha256.Sum256(text)
	if err != nil || string(want) != hex.EncodeToString(sum[:]) {
		return nil, edgewise.Errorf(op, edgewise.Corrupt, "the backup is damaged: its manifest does not have the digest in %s", backupDigest)
	}
	m := &backup{folder: folder}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "the backup's manifest cannot be read: %w", err)
	}
	if m.Format != backupFormat {
		return nil, edgewise.Errorf(op, edgewise.Unsupported, "the backup has format %d: this box reads format %d", m.Format, backupFormat)
	}
	return m, nil
}

// restore brings what a backup holds and this box lacks. What is here already stays as it is. Everything is checked and copied first; then
// versions, labels, notes, drafts, settings, history and, withAccounts, users and keys begin to exist in one step, or none of them does.
// Behind that, models are loaded and labels of models that were here move one after the other, as if a person had moved them: a version
// that cannot be loaded is named in the error, and leaves everything else restored. A restore can be repeated.
func (a *App) restore(ctx context.Context, m *backup, withAccounts bool) error {
	ctx = edgewise.WithCause(ctx, admin.CauseRestore)
	r, err := a.bring(ctx, m, withAccounts)
	if err != nil {
		return err
	}
	return r.activate(ctx)
}

// bring stores what a backup holds in one step.
func (a *App) bring(ctx context.Context, m *backup, withAccounts bool) (*restoring, error) {
	r := &restoring{app: a, backup: m, accounts: withAccounts, isNew: map[string]bool{}}
	if err := a.checkBackup(ctx, m); err != nil { // the box may have changed since the first check
		return nil, err
	}
	r.plan()
	batch, err := a.store.Stage(ctx, r.imports, r)
	if err != nil {
		return nil, err
	}
	err = a.documents.Update(func(tx edgewise.DocumentsTx) error {
		if err := r.write(tx); err != nil {
			return err
		}
		return batch.Put(ctx) // last: what it has made exists even if this transaction cannot be committed
	})
	if err = errors.Join(err, batch.Discard()); err != nil {
		return nil, err
	}
	return r, nil
}

// restoring is one restore.
type restoring struct {
	app      *App
	backup   *backup
	accounts bool
	imports  []store.Import
	isNew    map[string]bool // models that were not stored
}

var _ store.ImportSource = (*restoring)(nil)

// plan lists what is to be imported: versions that are not stored, and labels and wishes of models that are not.
func (r *restoring) plan() {
	for _, model := range r.backup.inOrder() {
		stored := r.app.registry.Lookup(model.Name)
		m := store.Import{Name: model.Name}
		for _, v := range model.Versions {
			if stored != nil && stored.Version(v.ID.Version) != nil {
				continue
			}
			c := *v
			c.Origin = "restore of " + v.Origin
			m.Versions = append(m.Versions, &c)
		}
		if stored == nil {
			m.Labels, m.Wanted = model.Labels, model.Wanted
			r.isNew[model.Name] = true
		}
		if len(m.Versions) > 0 {
			r.imports = append(r.imports, m)
		}
	}
}

// Open returns a file of the backup.
func (r *restoring) Open(f edgewise.File) (io.ReadCloser, error) {
	in, err := os.Open(r.backup.path(f))
	if err != nil {
		return nil, edgewise.Errorf("appliance.restore", edgewise.Corrupt, "the backup lacks file %q", f.Path)
	}
	return in, nil
}

// Check holds a declaration that comes from elsewhere against its files, as an upload's.
func (r *restoring) Check(ctx context.Context, v *edgewise.Version, dir string) error {
	if ensemble.Is(v.Model) {
		parts, err := ensemble.Parts(v.Model, r.backup.beside(r.app.registry.Lookup))
		if err != nil {
			return err
		}
		return ensemble.Validate(v.Model, ensemble.ModelsOf(parts))
	}
	inspection, err := r.app.registry.InspectFolder(ctx, dir, v.Model)
	if err != nil {
		return apistatus.HidePath(err, dir)
	}
	return modelconfig.Validate(v.Model, v.Paths(), inspection)
}

// beside returns a look-up of models that finds what is stored and what the backup holds.
func (m *backup) beside(stored func(name string) *edgewise.Record) func(name string) *edgewise.Record {
	return func(name string) *edgewise.Record {
		here := stored(name)
		i := slices.IndexFunc(m.Models, func(model backupModel) bool { return model.Name == name })
		if i < 0 {
			return here
		}
		both := &edgewise.Record{Name: name}
		if here != nil {
			*both = *here
			both.Versions = slices.Clone(here.Versions)
		}
		for _, v := range m.Models[i].Versions {
			if both.Version(v.ID.Version) == nil {
				both.Versions = append(both.Versions, v)
			}
		}
		return both
	}
}

// write puts the documents that are not here.
func (r *restoring) write(tx edgewise.DocumentsTx) error {
	for bucket, documents := range r.backup.Buckets {
		if _, secret := auth.AccountBuckets()[bucket]; secret && !r.accounts {
			continue
		}
		for key, value := range documents {
			if tx.Get(bucket, key) != nil {
				continue
			}
			if err := tx.Put(bucket, key, value); err != nil {
				return err
			}
		}
	}
	if r.backup.Settings != nil {
		text, err := json.Marshal(r.backup.Settings)
		if err != nil {
			return edgewise.Errorf("appliance.restore", edgewise.Internal, "encoding the settings: %w", err)
		}
		if err := tx.Put(boxBucket, settingsKey, text); err != nil {
			return err
		}
	}
	for _, e := range r.backup.Deployments {
		if r.app.registry.Lookup(e.Model) != nil {
			continue // its history is here
		}
		_, err := tx.Append(registry.DeploymentsBucket, func(number uint64) ([]byte, error) {
			e.Number = number
			return json.Marshal(e)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// activate makes the box serve what has been restored.
func (r *restoring) activate(ctx context.Context) error {
	a := r.app
	if r.accounts {
		if err := a.accounts.Reload(); err != nil {
			return err
		}
	}
	if r.backup.Settings != nil {
		a.box.adopt(*r.backup.Settings)
	}
	wanted := map[string]bool{}
	for _, m := range r.imports {
		for _, v := range m.Versions {
			a.registry.Tell(v.ID, "stored")
		}
		for _, l := range m.Labels {
			a.history.Note(ctx, admin.Deployment{Model: m.Name, Label: l.Name, To: l.Version}, time.Now(), nil)
			a.registry.Tell(edgewise.ModelID{Name: m.Name, Version: l.Version}, "label")
		}
		wanted[m.Name] = m.Wanted
	}
	var failed []error
	for _, model := range r.backup.inOrder() {
		switch {
		case !r.isNew[model.Name]:
			failed = append(failed, r.moveLabels(ctx, model))
		case wanted[model.Name]:
			failed = append(failed, a.serve(ctx, model.Name))
		default:
			failed = append(failed, a.registry.Refresh(ctx, model.Name))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return edgewise.Errorf("appliance.restore", edgewise.KindOf(err), "everything is restored, but not everything serves: %w", err)
	}
	return nil
}

// serve serves a model as it is stored now and waits for that.
func (a *App) serve(ctx context.Context, name string) error {
	if err := a.registry.Refresh(ctx, name); err != nil {
		return err
	}
	return a.registry.Settle(ctx, name)
}

// moveLabels points the labels of a model that was here to where the backup has them.
func (r *restoring) moveLabels(ctx context.Context, model backupModel) error {
	stored := r.app.registry
	for _, l := range model.Labels {
		if stored.Labelled(model.Name, l.Name) == l.Version {
			continue
		}
		if _, err := stored.SetLabel(ctx, model.Name, l.Name, l.Version); err != nil {
			return err
		}
	}
	if !model.Wanted {
		return stored.Unload(ctx, model.Name)
	}
	return nil
}

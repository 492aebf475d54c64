package importer

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
	"github.com/edgewise-ai/edgewise/appliance/uploads"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/store"
)

const maxManifest = 256 << 20 // bytes of a backup's manifest

// maxBackupFiles bounds the files of a backup.
const maxBackupFiles = 100_000

// prepareRestore reads a backup and describes what it holds. Nothing is changed.
func (im *Importer) prepareRestore(ctx context.Context, made *job, data, folder string) error {
	err := im.step(made, stepUnpack, func() error {
		limits := uploads.Limits{Bytes: im.config.MaxBytes, Files: maxBackupFiles, Room: im.config.Store.Room}
		return uploads.Unpack(uploads.Tar, data, folder, limits,
			func(done int64) { im.progress(made, stepUnpack, done, made.file.Length) })
	})
	if err != nil {
		return err
	}
	return im.step(made, stepInspect, func() error {
		m, err := ReadBackup(folder)
		if err != nil {
			return err
		}
		if err := im.checkBackup(ctx, m); err != nil {
			return err
		}
		im.change(made, func(shown *admin.Job) {
			made.backup = m
			shown.Understood = &admin.Understood{Models: []admin.UnderstoodModel{}, Backup: m.summary(made.file.Length)}
		})
		return nil
	})
}

// ReadBackup reads the manifest of a backup that was unpacked into a folder, of at most 256 MiB. It does not check what the
// manifest says. Errors: Invalid, Corrupt, Unsupported.
func ReadBackup(folder string) (*Backup, error) {
	const op = "importer.ReadBackup"
	text, err := store.ReadBounded(filepath.Join(folder, ManifestFile), maxManifest)
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "this is no backup: it has no %s", ManifestFile)
	}
	want, err := store.ReadBounded(filepath.Join(folder, DigestFile), 2*sha256.Size)
	sum := sha256.Sum256(text)
	if err != nil || string(want) != hex.EncodeToString(sum[:]) {
		return nil, edgewise.Errorf(op, edgewise.Corrupt,
			"the backup is damaged: its manifest does not have the digest in %s", DigestFile)
	}
	m := &Backup{folder: folder}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "the backup's manifest cannot be read: %w", err)
	}
	if m.Format != BackupFormat {
		return nil, edgewise.Errorf(op, edgewise.Unsupported, "the backup has format %d: this box reads format %d", m.Format,
			BackupFormat)
	}
	return m, nil
}

// Restore stores what a backup holds and this box lacks. What is stored here already stays as it is. Everything is
// checked and copied first; then versions, labels, notes, drafts, goldens, settings, history and, with accounts, users and keys
// begin to exist in one step, or none of them does. A restore can be repeated.
func (im *Importer) Restore(ctx context.Context, m *Backup, accounts bool) (*Restored, error) {
	r := &Restored{importer: im, backup: m, accounts: accounts, isNew: map[string]bool{}}
	if err := im.checkBackup(ctx, m); err != nil { // the box may have changed since the first check
		return nil, err
	}
	r.plan()
	batch, err := im.config.Store.Stage(ctx, r.imports, r)
	if err != nil {
		return nil, err
	}
	goldens := im.config.Goldens()
	err = goldens.Restore(goldens.Examples(m.Buckets), m.read, func() error {
		return im.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
			if err := r.write(tx); err != nil {
				return err
			}
			return batch.Put(ctx) // last: what it has made exists even if this transaction cannot be committed
		})
	})
	if err = errors.Join(err, batch.Discard()); err != nil {
		return nil, err
	}
	return r, nil
}

// Restored is what a restore has stored.
type Restored struct {
	importer *Importer
	backup   *Backup
	accounts bool
	imports  []store.Import
	isNew    map[string]bool // models that were not stored
}

var _ store.ImportSource = (*Restored)(nil)

// plan lists what is to be stored: versions that are not, and the labels and desired state of models that are not.
func (r *Restored) plan() {
	im := r.importer
	for _, model := range r.backup.inOrder() {
		stored := im.config.Models.Lookup(model.Name)
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
func (r *Restored) Open(f edgewise.File) (io.ReadCloser, error) {
	in, err := os.Open(r.backup.path(f))
	if err != nil {
		return nil, edgewise.Errorf("importer.restore", edgewise.Corrupt, "the backup lacks file %q", f.Path)
	}
	return in, nil
}

// Check holds a declaration that comes from elsewhere against its files, as an upload's.
func (r *Restored) Check(ctx context.Context, v *edgewise.Version, dir string) error {
	im := r.importer
	if ensemble.Is(v.Model) {
		parts, err := ensemble.Parts(v.Model, r.backup.beside(im.config.Models.Lookup))
		if err != nil {
			return err
		}
		return ensemble.Validate(v.Model, ensemble.ModelsOf(parts))
	}
	inspection, err := im.config.Models.InspectFolder(ctx, dir, v.Model)
	if err != nil {
		return apistatus.HidePath(err, dir)
	}
	return modelconfig.Validate(v.Model, v.Paths(), inspection, modelconfig.Defaults{Formats: im.config.Formats})
}

// beside returns a look-up of models that finds what is stored and what the backup holds.
func (m *Backup) beside(stored func(name string) *edgewise.Record) func(name string) *edgewise.Record {
	return func(name string) *edgewise.Record {
		here := stored(name)
		i := slices.IndexFunc(m.Models, func(model BackupModel) bool { return model.Name == name })
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
func (r *Restored) write(tx edgewise.DocumentsTx) error {
	im := r.importer
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
		if err := im.config.Settings.Put(tx, *r.backup.Settings); err != nil {
			return err
		}
	}
	for _, e := range r.backup.Deployments {
		if im.config.Models.Lookup(e.Model) != nil {
			continue // its history is here
		}
		if err := im.config.History.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// Activate loads what has been restored, and moves the labels of models that were stored before, one after the other.
// The error names each version that cannot be loaded; everything else stays restored.
func (r *Restored) Activate(ctx context.Context) error {
	ctx = admin.WithCause(ctx, admin.CauseRestore)
	im := r.importer
	if r.accounts {
		if err := im.config.ReloadAccounts(); err != nil {
			return err
		}
	}
	if r.backup.Settings != nil {
		im.config.Settings.Adopt(*r.backup.Settings)
	}
	wanted := map[string]bool{}
	for _, m := range r.imports {
		for _, v := range m.Versions {
			im.config.Models.Tell(v.ID, "stored")
		}
		for _, l := range m.Labels {
			im.config.History.Note(ctx, admin.Deployment{Model: m.Name, Label: l.Name, To: l.Version}, time.Now(), nil)
			im.config.Models.Tell(edgewise.ModelID{Name: m.Name, Version: l.Version}, "label")
		}
		wanted[m.Name] = m.Wanted
	}
	var failed []error
	for _, model := range r.backup.inOrder() {
		switch {
		case !r.isNew[model.Name]:
			failed = append(failed, r.moveLabels(ctx, model))
		case wanted[model.Name]:
			failed = append(failed, r.serve(ctx, model.Name))
		default:
			failed = append(failed, im.config.Models.Refresh(ctx, model.Name))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return edgewise.Errorf("importer.restore", edgewise.KindOf(err),
			"everything is restored, but not everything serves: %w", err)
	}
	return nil
}

// serve serves a model as it is stored now and waits for that.
func (r *Restored) serve(ctx context.Context, name string) error {
	models := r.importer.config.Models
	if err := models.Refresh(ctx, name); err != nil {
		return err
	}
	return models.Settle(ctx, name)
}

// moveLabels moves the labels of a model that was stored before to the versions that the backup has them at.
func (r *Restored) moveLabels(ctx context.Context, model BackupModel) error {
	models := r.importer.config.Models
	for _, l := range model.Labels {
		if record := models.Lookup(model.Name); record != nil && record.Label(l.Name) == l.Version {
			continue
		}
		if _, err := models.SetLabel(ctx, model.Name, l.Name, l.Version); err != nil {
			return err
		}
	}
	if !model.Wanted {
		return models.Unload(ctx, model.Name)
	}
	return nil
}

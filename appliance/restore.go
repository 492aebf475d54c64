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

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
	"github.com/edgewise-ai/edgewise/ensemble"
)

const maxManifest = 256 << 20 // bytes of a backup's manifest

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

// maxBackupFiles bounds the files of a backup.
const maxBackupFiles = 100_000

func readBackup(folder string) (*backup, error) {
	const op = "appliance.readBackup"
	text, err := readBounded(filepath.Join(folder, backupManifest), maxManifest)
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "this is no backup: it has no %s", backupManifest)
	}
	want, err := readBounded(filepath.Join(folder, backupDigest), 2*sha256.Size)
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

// checkBackup says what would go wrong, before anything is changed: files that are damaged or missing, declarations that this
// box cannot serve, and versions that are stored here with other content.
func (a *App) checkBackup(ctx context.Context, m *backup) error {
	const op = "appliance.checkBackup"
	checked := map[edgewise.Digest]bool{}
	for _, model := range m.Models {
		if err := edgewise.CheckName(model.Name); err != nil {
			return edgewise.Errorf(op, edgewise.Invalid, "the backup: %w", err)
		}
		record := a.library.record(model.Name)
		for _, v := range model.Versions {
			if v == nil || v.Model == nil || v.ID.Name != model.Name || v.ID.Version <= 0 {
				return edgewise.Errorf(op, edgewise.Invalid, "the backup: model %q has a version that is none", model.Name)
			}
			if record != nil {
				if stored := record.Version(v.ID.Version); stored != nil && stored.Digest != v.Digest {
					return edgewise.Errorf(op, edgewise.Exists, "model %v is stored here with other content: delete it first, for versions never change", v.ID)
				}
			}
			for _, f := range v.Files {
				if err := m.checkFile(ctx, f, checked); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkFile compares a file with its digest, once.
func (m *backup) checkFile(ctx context.Context, f edgewise.File, checked map[edgewise.Digest]bool) error {
	const op = "appliance.checkFile"
	if err := edgewise.CheckPath(f.Path); err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "the backup: %w", err)
	}
	if checked[f.Digest] {
		return nil
	}
	if sum, err := hex.DecodeString(string(f.Digest)); err != nil || len(sum) != sha256.Size {
		return edgewise.Errorf(op, edgewise.Invalid, "the backup: file %q has the digest %.80q, which is none", f.Path, f.Digest)
	}
	in, err := os.Open(m.path(f))
	if err != nil {
		return edgewise.Errorf(op, edgewise.Corrupt, "the backup lacks file %q", f.Path)
	}
	defer func() { _ = in.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, in)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if n != f.Size || hex.EncodeToString(h.Sum(nil)) != string(f.Digest) {
		return edgewise.Errorf(op, edgewise.Corrupt, "the backup is damaged: file %q does not have its digest", f.Path)
	}
	checked[f.Digest] = true
	return nil
}

func (m *backup) path(f edgewise.File) string {
	return filepath.Join(m.folder, filepath.FromSlash(backupFiles), string(f.Digest))
}

// restore brings what a backup holds and this box lacks. What is here already stays as it is; labels move to where the
// backup has them. It can be repeated after it failed.
func (a *App) restore(ctx context.Context, m *backup, withAccounts bool) error {
	ctx = withCause(ctx, causeRestore)
	for _, model := range m.inOrder() {
		for _, v := range model.Versions {
			if err := a.restoreVersion(ctx, m, v); err != nil {
				return err
			}
		}
	}
	if err := a.restoreDocuments(m, withAccounts); err != nil {
		return err
	}
	if m.Settings != nil {
		s := *m.Settings
		if _, err := a.box.ChangeSettings(admin.SettingsChange{Name: &s.Name, SessionIdle: &s.SessionIdle, Session: &s.Session, MetricsPublic: &s.MetricsPublic}); err != nil {
			return err
		}
	}
	var failed []error
	for _, model := range m.inOrder() {
		failed = append(failed, a.restoreLabels(ctx, model))
	}
	return errors.Join(failed...)
}

// inOrder returns the models so that ensembles come behind the models that they run.
func (m *backup) inOrder() []backupModel {
	depths := m.depths()
	list := slices.Clone(m.Models)
	slices.SortStableFunc(list, func(x, y backupModel) int { return depths[x.Name] - depths[y.Name] })
	return list
}

// depths says how deep models stand above others: 0 for those that run none. Ensembles in a circle, of which none is valid, have some depth.
func (m *backup) depths() map[string]int {
	depths := make(map[string]int, len(m.Models))
	for range ensemble.MaxNesting {
		for _, model := range m.Models {
			for _, v := range model.Versions {
				for _, pin := range v.Model.Pins() {
					depths[model.Name] = max(depths[model.Name], 1+depths[pin.Name])
				}
			}
		}
	}
	return depths
}

// restoreVersion stores a version exactly as it was, so that it has the same digest.
func (a *App) restoreVersion(ctx context.Context, m *backup, v *edgewise.Version) error {
	if r := a.library.record(v.ID.Name); r != nil && r.Version(v.ID.Version) != nil {
		return nil
	}
	staging, err := a.store.Begin(ctx, v.Size)
	if err != nil {
		return err
	}
	defer func() {
		if err := staging.Discard(); err != nil {
			a.logger.Error("discarding a version of a backup", "model", v.ID.String(), "error", err)
		}
	}()
	for _, f := range v.Files {
		in, err := os.Open(m.path(f))
		if err != nil {
			return edgewise.Errorf("appliance.restoreVersion", edgewise.Corrupt, "the backup lacks file %q", f.Path)
		}
		_, err = staging.Add(ctx, f.Path, f.Size, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	if err := a.checkRestored(ctx, v, staging.Dir()); err != nil {
		return err
	}
	stored, err := a.store.Put(ctx, staging, edgewise.Version{ID: v.ID, Model: v.Model, Origin: "restore of " + v.Origin})
	if err != nil {
		return err
	}
	if stored.Digest != v.Digest {
		return edgewise.Errorf("appliance.restoreVersion", edgewise.Corrupt, "model %v has come out of the backup with another digest", v.ID)
	}
	a.library.tell(stored.ID, "stored")
	return nil
}

// checkRestored holds a declaration that comes from elsewhere against its files, as an upload's.
func (a *App) checkRestored(ctx context.Context, v *edgewise.Version, dir string) error {
	files := paths(v)
	if isEnsemble(v.Model) {
		parts, err := ensemble.Parts(v.Model, a.library.record)
		if err != nil {
			return err
		}
		return ensemble.Validate(v.Model, models(parts))
	}
	inspection, err := a.library.inspect(ctx, dir, v.Model)
	if err != nil {
		return outside(err, dir)
	}
	return modelconfig.Validate(v.Model, files, inspection)
}

// restoreDocuments brings notes and drafts, and with accounts users and keys, that are not here.
func (a *App) restoreDocuments(m *backup, withAccounts bool) error {
	buckets := openBuckets()
	if withAccounts {
		buckets = append(buckets, secretBuckets()...)
	}
	err := a.documents.Update(func(tx edgewise.DocumentsTx) error {
		for _, bucket := range buckets {
			for key, value := range m.Buckets[bucket] {
				if tx.Get(bucket, key) != nil {
					continue
				}
				if err := tx.Put(bucket, key, value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || !withAccounts {
		return err
	}
	return a.accounts.Reload()
}

// restoreLabels points a model's labels to where the backup has them.
func (a *App) restoreLabels(ctx context.Context, model backupModel) error {
	for _, l := range model.Labels {
		if a.library.labelled(model.Name, l.Name) == l.Version {
			continue
		}
		if _, err := a.library.SetLabel(ctx, model.Name, l.Name, l.Version); err != nil {
			return err
		}
	}
	if !model.Wanted {
		return a.library.Unload(ctx, model.Name)
	}
	return nil
}

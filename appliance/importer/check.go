package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/store"
)

// checkBackup says what would go wrong, before anything is changed: files that are damaged or missing, names and labels
// that cannot be, documents of another form than this box stores, and versions that are stored here with other content.
func (im *Importer) checkBackup(ctx context.Context, m *Backup) error {
	checked, seen := map[edgewise.Digest]bool{}, map[string]bool{}
	for _, model := range m.Models {
		if err := im.checkBackupModel(model, seen); err != nil {
			return err
		}
		for _, v := range model.Versions {
			for _, f := range v.Files {
				if err := m.checkFile(ctx, f, checked); err != nil {
					return err
				}
			}
		}
	}
	for _, f := range im.config.Goldens().Examples(m.Buckets) {
		if err := m.checkFile(ctx, f, checked); err != nil {
			return err
		}
	}
	if m.Settings != nil {
		if err := im.config.Settings.Check(*m.Settings); err != nil {
			return edgewise.Errorf("importer.checkBackup", edgewise.Invalid, "the backup's settings: %w", err)
		}
	}
	return im.checkBackupDocuments(m)
}

// checkBackupModel checks everything about a model but its files.
func (im *Importer) checkBackupModel(model BackupModel, seen map[string]bool) error {
	const op = "importer.checkBackup"
	if err := edgewise.CheckName(model.Name); err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "the backup: %w", err)
	}
	if seen[model.Name] {
		return edgewise.Errorf(op, edgewise.Invalid, "the backup: model %q is in it twice", model.Name)
	}
	seen[model.Name] = true
	if err := im.config.Models.Changeable(op, model.Name); err != nil {
		return err
	}
	record := im.config.Models.Lookup(model.Name)
	numbers := map[int64]bool{}
	for i, v := range model.Versions {
		switch {
		case v == nil || v.Model == nil || len(v.Files) == 0:
			return edgewise.Errorf(op, edgewise.Invalid,
				"the backup: model %q has a version, at %d, without declaration or files", model.Name, i)
		case v.ID.Name != model.Name || v.ID.Version <= 0 || v.ID.Version > store.MaxVersion || numbers[v.ID.Version]:
			return edgewise.Errorf(op, edgewise.Invalid,
				"the backup: model %q has a version with the id %v: want its name, and numbers from 1 to %d, each once",
				model.Name, v.ID, int64(store.MaxVersion))
		case v.Size != size(v.Files):
			return edgewise.Errorf(op, edgewise.Invalid, "the backup: model %v has %d bytes, its files have %d", v.ID, v.Size,
				size(v.Files))
		}
		numbers[v.ID.Version] = true
		if record == nil {
			continue
		}
		if stored := record.Version(v.ID.Version); stored != nil && stored.Digest != v.Digest {
			return edgewise.Errorf(op, edgewise.Exists,
				"model %v is stored here with other content: delete it first, for versions never change", v.ID)
		}
	}
	if len(model.Versions) == 0 && (len(model.Labels) > 0 || model.Wanted) {
		return edgewise.Errorf(op, edgewise.Invalid, "the backup: model %q has labels and no version", model.Name)
	}
	if err := store.CheckLabels(model.Name, model.Labels, model.Versions); err != nil {
		return edgewise.Errorf(op, edgewise.KindOf(err), "the backup: %w", err)
	}
	return nil
}

// size is the bytes of files together, and -1 where that is no number.
func size(files []edgewise.File) (sum int64) {
	for _, f := range files {
		if f.Size < 0 || sum+f.Size < sum {
			return -1
		}
		sum += f.Size
	}
	return sum
}

// checkBackupDocuments checks the documents, and how many there would be.
func (im *Importer) checkBackupDocuments(m *Backup) error {
	const op = "importer.checkBackup"
	bounds := auth.AccountBuckets()
	maps.Copy(bounds, im.config.Buckets)
	for _, bucket := range slices.Sorted(maps.Keys(m.Buckets)) {
		most, known := bounds[bucket]
		if !known {
			return edgewise.Errorf(op, edgewise.Invalid,
				"the backup: it holds documents of the kind %.40q, which a backup does not have", bucket)
		}
		for _, key := range slices.Sorted(maps.Keys(m.Buckets[bucket])) {
			if err := im.config.CheckDocument(bucket, key, m.Buckets[bucket][key]); err != nil {
				return edgewise.Errorf(op, edgewise.Invalid, "the backup: %w", err)
			}
		}
		if n := im.together(bucket, m.Buckets[bucket]); n > most {
			return edgewise.Errorf(op, edgewise.TooLarge,
				"the backup: with what is here there would be %d %s: at most %d are allowed", n, bucket, most)
		}
	}
	if err := im.config.Goldens().CheckRestore(m.Buckets, func(model string) bool {
		return im.config.Models.Lookup(model) != nil ||
			slices.ContainsFunc(m.Models, func(b BackupModel) bool { return b.Name == model })
	}); err != nil {
		return err
	}
	if len(m.Deployments) > maxBackupHistory {
		return edgewise.Errorf(op, edgewise.TooLarge, "the backup: its history has %d entries: at most %d are allowed",
			len(m.Deployments), maxBackupHistory)
	}
	return nil
}

// together counts the documents of a bucket that there would be.
func (im *Importer) together(bucket string, brought map[string][]byte) int {
	n := len(brought)
	_ = im.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		return tx.Each(bucket, func(key string, _ []byte) error {
			if _, both := brought[key]; !both {
				n++
			}
			return nil
		})
	})
	return n
}

// checkFile compares a file with its digest, once.
func (m *Backup) checkFile(ctx context.Context, f edgewise.File, checked map[edgewise.Digest]bool) error {
	const op = "importer.checkFile"
	if err := edgewise.CheckPath(f.Path); err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "the backup: %w", err)
	}
	if checked[f.Digest] {
		return nil
	}
	if sum, err := hex.DecodeString(string(f.Digest)); err != nil || hex.EncodeToString(sum) != string(f.Digest) ||
		len(sum) != sha256.Size {
		return edgewise.Errorf(op, edgewise.Invalid, "the backup: file %q has the digest %.80q: want %d hexadecimal digits",
			f.Path, f.Digest, 2*sha256.Size)
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

// read returns the bytes of a file, which has been checked.
func (m *Backup) read(f edgewise.File) ([]byte, error) {
	data, err := store.ReadBounded(m.path(f), f.Size)
	if err != nil {
		return nil, edgewise.Errorf("importer.restore", edgewise.Corrupt, "the backup lacks file %q", f.Path)
	}
	return data, nil
}

func (m *Backup) path(f edgewise.File) string {
	return filepath.Join(m.folder, filepath.FromSlash(FilesFolder), string(f.Digest))
}

// inOrder returns the models so that ensembles come behind the models that they run.
func (m *Backup) inOrder() []BackupModel {
	depths := m.depths()
	list := slices.Clone(m.Models)
	slices.SortStableFunc(list, func(x, y BackupModel) int { return depths[x.Name] - depths[y.Name] })
	return list
}

// depths says how deep models stand above others: 0 for those that run none. Ensembles in a circle, of which none is
// valid, have some depth.
func (m *Backup) depths() map[string]int {
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

package importer

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/auth"
)

// BackupFormat is the number of the file's format. Another one is refused.
const BackupFormat = 1

// The entries of a backup: the manifest, which has the digest of every file, its own digest, and the folder of the
// files.
const (
	ManifestFile = "manifest.json"
	DigestFile   = "manifest.sha256"
	FilesFolder  = "files/"
)

// Backup is the manifest of a backup; see docs/formats.
type Backup struct {
	Format   int             `json:"format"`
	Name     string          `json:"name"` // of the box
	Version  string          `json:"version"`
	Created  time.Time       `json:"created"`
	Models   []BackupModel   `json:"models"`
	Settings *admin.Settings `json:"settings,omitempty"`
	// Buckets are documents by bucket and key: notes, drafts, goldens and, where they were requested, users and keys.
	Buckets map[string]map[string][]byte `json:"buckets"`
	// Deployments is the history, oldest first.
	Deployments []admin.Deployment `json:"deployments"`

	folder string // where its files were unpacked
}

// BackupModel is what a backup holds of a model.
type BackupModel struct {
	Name     string              `json:"name"`
	Wanted   bool                `json:"wanted"`
	Labels   []edgewise.Label    `json:"labels"`
	Versions []*edgewise.Version `json:"versions"`
}

// WriteBackup writes one file with everything: models, labels, notes, drafts, goldens, plans of rollouts, history and
// settings, and with accounts users and keys, but never sessions or recorded requests. It fails when a version or a golden
// is deleted meanwhile; a reader notices an incomplete file.
func (im *Importer) WriteBackup(ctx context.Context, w io.Writer, withAccounts bool) error {
	m, err := im.describeBackup(withAccounts)
	if err != nil {
		return err
	}
	examples := im.config.Goldens().BackupFiles(m.Buckets)
	text, err := json.Marshal(m)
	if err != nil {
		return edgewise.Errorf("importer.Backup", edgewise.Internal, "%w", err)
	}
	sum := sha256.Sum256(text)
	t := tar.NewWriter(w)
	if err := addBytes(t, ManifestFile, text, m.Created); err != nil {
		return err
	}
	if err := addBytes(t, DigestFile, []byte(hex.EncodeToString(sum[:])), m.Created); err != nil {
		return err
	}
	written := map[edgewise.Digest]bool{}
	for _, model := range m.Models {
		for _, v := range model.Versions {
			if err := im.addVersion(ctx, t, v, written); err != nil {
				return err
			}
		}
	}
	for _, f := range examples {
		if written[f.Digest] {
			continue
		}
		written[f.Digest] = true
		data, err := im.config.Goldens().ReadExample(f)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if err := addBytes(t, FilesFolder+string(f.Digest), data, m.Created); err != nil {
			return err
		}
	}
	return t.Close()
}

func (im *Importer) describeBackup(withAccounts bool) (*Backup, error) {
	settings := im.config.Settings.Settings()
	m := &Backup{
		Format: BackupFormat, Name: settings.Name, Version: im.config.Version,
		Created: time.Now().UTC().Truncate(time.Second), Models: []BackupModel{}, Settings: &settings,
		Buckets: map[string]map[string][]byte{},
	}
	for _, r := range im.config.Models.Records() {
		m.Models = append(m.Models, BackupModel{
			Name: r.Name, Wanted: r.Wanted,
			Labels: append([]edgewise.Label{}, r.Labels...), Versions: r.Versions,
		})
	}
	buckets := slices.Collect(maps.Keys(im.config.Buckets))
	if withAccounts {
		buckets = slices.AppendSeq(buckets, maps.Keys(auth.AccountBuckets()))
	}
	err := im.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		for _, bucket := range buckets {
			m.Buckets[bucket] = map[string][]byte{}
			if err := tx.Each(bucket, func(key string, value []byte) error {
				m.Buckets[bucket][key] = bytes.Clone(value)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.Deployments, err = im.config.History.List("", maxBackupHistory)
	slices.Reverse(m.Deployments)
	return m, err
}

// maxBackupHistory bounds the history in a backup.
const maxBackupHistory = 10_000

func addBytes(t *tar.Writer, name string, text []byte, at time.Time) error {
	return add(t, name, bytes.NewReader(text), int64(len(text)), at)
}

// add writes an entry of size bytes.
func add(t *tar.Writer, name string, from io.Reader, size int64, at time.Time) error {
	if err := t.WriteHeader(&tar.Header{
		Name: name, Mode: 0o600, Size: size, ModTime: at.Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}); err != nil {
		return err
	}
	_, err := io.CopyN(t, from, size)
	return err
}

// addVersion writes the files of a version that are not written yet, each under its digest.
func (im *Importer) addVersion(ctx context.Context, t *tar.Writer, v *edgewise.Version,
	written map[edgewise.Digest]bool,
) error {
	dir, err := im.config.Store.Dir(v.ID)
	if err != nil {
		return err
	}
	for _, f := range v.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if written[f.Digest] {
			continue
		}
		written[f.Digest] = true
		if err := addFile(t, FilesFolder+string(f.Digest), filepath.Join(dir, filepath.FromSlash(f.Path)), f.Size,
			v.Created); err != nil {
			return edgewise.Errorf("importer.Backup", edgewise.Internal, "file %q of model %v: %w", f.Path, v.ID, err)
		}
	}
	return nil
}

func addFile(t *tar.Writer, name, path string, size int64, at time.Time) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return add(t, name, in, size, at)
}

// summary describes what a backup holds.
func (m *Backup) summary(size int64) *admin.BackupSummary {
	s := &admin.BackupSummary{
		Name: m.Name, Created: m.Created, Version: m.Version, Models: len(m.Models),
		Users: len(m.Buckets["users"]), Keys: len(m.Buckets["keys"]), Size: size,
	}
	for _, model := range m.Models {
		s.Versions += len(model.Versions)
	}
	return s
}

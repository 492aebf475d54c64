package appliance

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/editor"
	"github.com/edgewise-ai/edgewise/appliance/registry"
)

// openBuckets go into every backup, those of accounts only where they are asked for. Sessions never do.
func openBuckets() []string { return []string{registry.NotesBucket, editor.DraftsBucket} }

// Backup writes one file with everything: models, labels, notes, drafts, history and settings, and with accounts users and
// keys. What is deleted while it is written makes it fail, and the reader of a broken file notices.
func (a *App) Backup(ctx context.Context, w io.Writer, withAccounts bool) error {
	m, err := a.describeBackup(withAccounts)
	if err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return edgewise.Errorf("appliance.Backup", edgewise.Internal, "%w", err)
	}
	sum := sha256.Sum256(text)
	t := tar.NewWriter(w)
	if err := addBytes(t, backupManifest, text, m.Created); err != nil {
		return err
	}
	if err := addBytes(t, backupDigest, []byte(hex.EncodeToString(sum[:])), m.Created); err != nil {
		return err
	}
	written := map[edgewise.Digest]bool{}
	for _, model := range m.Models {
		for _, v := range model.Versions {
			if err := a.addVersion(ctx, t, v, written); err != nil {
				return err
			}
		}
	}
	return t.Close()
}

func (a *App) describeBackup(withAccounts bool) (*backup, error) {
	settings := a.box.Settings()
	m := &backup{
		Format: backupFormat, Name: settings.Name, Version: Version, Created: time.Now().UTC().Truncate(time.Second), Models: []backupModel{}, Settings: &settings,
		Buckets: map[string]map[string][]byte{},
	}
	for _, r := range a.registry.Records() {
		m.Models = append(m.Models, backupModel{Name: r.Name, Wanted: r.Wanted, Labels: append([]edgewise.Label{}, r.Labels...), Versions: r.Versions})
	}
	buckets := openBuckets()
	if withAccounts {
		buckets = slices.AppendSeq(buckets, maps.Keys(auth.AccountBuckets()))
	}
	err := a.documents.View(func(tx edgewise.DocumentsTx) error {
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
	m.Deployments, err = a.history.List("", maxBackupHistory)
	slices.Reverse(m.Deployments)
	return m, err
}

// maxBackupHistory bounds the history in a backup.
const maxBackupHistory = 10_000

func addBytes(t *tar.Writer, name string, text []byte, at time.Time) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := t.Write(text)
	return err
}

// addVersion writes the files of a version that are not written yet, each under its digest.
func (a *App) addVersion(ctx context.Context, t *tar.Writer, v *edgewise.Version, written map[edgewise.Digest]bool) error {
	dir, err := a.store.Dir(v.ID)
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
		if err := addFile(t, backupFiles+string(f.Digest), filepath.Join(dir, filepath.FromSlash(f.Path)), f.Size, v.Created); err != nil {
			return edgewise.Errorf("appliance.Backup", edgewise.Internal, "file %q of model %v: %w", f.Path, v.ID, err)
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
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: at.Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.CopyN(t, in, size)
	return err
}

// summary says what a backup holds.
func (m *backup) summary(size int64) *admin.BackupSummary {
	s := &admin.BackupSummary{Name: m.Name, Created: m.Created, Version: m.Version, Models: len(m.Models), Users: len(m.Buckets["users"]), Keys: len(m.Buckets["keys"]), Size: size}
	for _, model := range m.Models {
		s.Versions += len(model.Versions)
	}
	return s
}

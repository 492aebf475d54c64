package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store/database"
	"github.com/edgewise-ai/edgewise/store/disk"
)

// Check compares the data folder with the catalog without reading the files of versions: every file and blob is there
// with its size, every manifest agrees with the catalog, every count of references is right, nothing foreign is about.
// It changes nothing and does not hold up others.
func (s *Store) Check(ctx context.Context) (*Report, error) {
	return s.examine(ctx, "store.Check", newExaminer(s.root, false))
}

// Verify is Check that also reads every file, compares its SHA-256, and walks all pages of the catalog.
func (s *Store) Verify(ctx context.Context) (*Report, error) {
	const op = "store.Verify"
	e := newExaminer(s.root, true)
	if err := s.lockWriter(ctx, op); err != nil { // the walk must not meet a writer
		return nil, err
	}
	err := database.View(s.db, e.pages)
	s.unlockWriter()
	if err != nil {
		return nil, fail(op, edgewise.ModelID{}, "reading the catalog", err)
	}
	return s.examine(ctx, op, e)
}

func (s *Store) examine(ctx context.Context, op string, e *examiner) (*Report, error) {
	if err := database.View(s.db, e.refs); err != nil {
		return nil, fail(op, edgewise.ModelID{}, "reading the catalog", err)
	}
	for _, r := range s.Records() {
		for _, v := range r.Versions {
			if err := e.version(ctx, v); err != nil {
				return nil, fail(op, v.ID, "examining model "+v.ID.String(), err)
			}
		}
	}
	e.unknownFiles(s.view.Load())
	now := s.view.Load()
	e.report.Findings = slices.DeleteFunc(e.report.Findings, func(f database.Finding) bool {
		there := now.version(f.Model) != nil
		return f.Model.Version > 0 && there != e.seen[f.Model] // deleted or put while we looked
	})
	return e.report, nil
}

// examiner looks at versions and notes what is wrong in its report.
type examiner struct {
	root   layout
	report *Report
	seen   map[edgewise.ModelID]bool       // versions looked at
	good   map[edgewise.Digest]os.FileInfo // files that were read and have their digest
}

func newExaminer(root layout, hashed bool) *examiner {
	return &examiner{
		root:   root,
		report: &Report{Hashed: hashed, Findings: []database.Finding{}},
		seen:   make(map[edgewise.ModelID]bool),
		good:   make(map[edgewise.Digest]os.FileInfo),
	}
}

// version examines one version. Its error is that of ctx alone.
func (e *examiner) version(ctx context.Context, v *edgewise.Version) error {
	e.seen[v.ID] = true
	e.report.count(v)
	m, err := readManifest(e.root.version(v.ID), v.ID)
	switch {
	case err != nil:
		e.report.find(v.ID, "", "", "manifest cannot be read: %v", database.Bare(err))
	case m.Digest != v.Digest:
		e.report.find(v.ID, "", "", "manifest has digest %.12s, the catalog %.12s", m.Digest, v.Digest)
	}
	for _, f := range v.Files {
		if err := e.file(ctx, v.ID, f); err != nil {
			return err
		}
	}
	e.extra(v)
	return nil
}

func (e *examiner) file(ctx context.Context, id edgewise.ModelID, f edgewise.File) error {
	path, blob := filepath.Join(e.root.files(id), filepath.FromSlash(f.Path)), e.root.blob(f.Digest)
	if err := e.content(ctx, path, f); err != nil {
		e.report.find(id, e.root.relative(path), "", "%v", err)
	}
	if !disk.SameFile(path, blob) {
		if err := e.content(ctx, blob, f); err != nil {
			e.report.find(id, e.root.relative(blob), "", "blob of %v", err)
		}
	}
	return ctx.Err()
}

// content tells whether the file at path is f.
func (e *examiner) content(ctx context.Context, path string, f edgewise.File) error {
	if err := checkSize(path, f); err != nil || !e.report.Hashed {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && os.SameFile(info, e.good[f.Digest]) {
		return nil
	}
	digest, err := disk.Hash(ctx, path)
	if err != nil {
		return fmt.Errorf("file %q cannot be read: %w", f.Path, database.Bare(err))
	}
	if digest != f.Digest {
		return fmt.Errorf("file %q has SHA-256 %.12s instead of %.12s", f.Path, digest, f.Digest)
	}
	e.good[f.Digest] = info
	return nil
}

// extra notes files that are in a version's folder and not in its list.
func (e *examiner) extra(v *edgewise.Version) {
	_ = e.root.extraFiles(v, func(path string) error { // what is missing was noted already
		e.report.find(v.ID, e.root.relative(path), "", "file does not belong to the version")
		return nil
	})
}

// extraFiles calls fn for each file in a version's folder that its list does not name.
func (l layout) extraFiles(v *edgewise.Version, fn func(path string) error) error {
	folder, names := l.files(v.ID), v.Paths()
	var failed []error
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		failed = append(failed, err)
		if err != nil || entry.IsDir() {
			return nil
		}
		if name, err := filepath.Rel(folder, path); err != nil || slices.Contains(names, filepath.ToSlash(name)) {
			return err
		}
		return fn(path)
	})
	return errors.Join(append(failed, err)...)
}

// unknownFiles notes what is in the data folder and not in v.
func (e *examiner) unknownFiles(v *view) {
	d, err := e.root.scan(v)
	if err != nil {
		e.report.find(edgewise.ModelID{}, "", "", "the data folder cannot be read: %v", err)
	}
	for _, id := range d.unknown {
		e.report.find(id, e.root.relative(e.root.version(id)), "", "version folder is not in the catalog")
	}
	for _, path := range d.foreign {
		if _, err := os.Lstat(path); err == nil {
			e.report.find(edgewise.ModelID{}, e.root.relative(path), "", "not made by edgewise")
		}
	}
}

// refs compares the counts of references with the versions.
func (e *examiner) refs(tx *bbolt.Tx) error {
	c := newContents()
	if err := c.read(tx); err != nil {
		return err
	}
	for _, p := range c.problems {
		e.report.find(edgewise.ModelID{}, catalogFile, "", "%s", p)
	}
	want := make(map[edgewise.Digest]int64)
	for _, v := range c.versions {
		for digest := range distinct(v.Files) {
			want[digest]++
		}
	}
	err := tx.Bucket(blobsBucket).ForEach(func(k, value []byte) error {
		var entry blobEntry
		digest := edgewise.Digest(k)
		if err := json.Unmarshal(value, &entry); err != nil || entry.Refs != want[digest] {
			e.report.find(edgewise.ModelID{}, catalogFile, "", "blob %.12s is counted %d times and named by %d versions", digest,
				entry.Refs, want[digest])
		}
		delete(want, digest)
		return nil
	})
	for digest, n := range want {
		e.report.find(edgewise.ModelID{}, catalogFile, "", "blob %.12s is not counted and named by %d versions", digest, n)
	}
	return err
}

func (e *examiner) pages(tx *bbolt.Tx) error {
	for err := range tx.Check() {
		e.report.find(edgewise.ModelID{}, catalogFile, "", "%v", err)
	}
	return nil
}

// findDamage looks for the files of every version, without reading them.
func (s *Store) findDamage() map[edgewise.ModelID]string {
	found := make(map[edgewise.ModelID]string)
	for _, r := range s.view.Load().records {
		for _, v := range r.Versions {
			if err := s.root.checkFiles(v); err != nil {
				found[v.ID] = err.Error()
				s.log.Error("a stored version is damaged", "model", v.ID.Name, "version", v.ID.Version, "reason", err)
			}
		}
	}
	return found
}

// checkFiles returns the first file of v that is missing or has the wrong size.
func (l layout) checkFiles(v *edgewise.Version) error {
	folder := l.files(v.ID)
	for _, f := range v.Files {
		if err := checkSize(filepath.Join(folder, filepath.FromSlash(f.Path)), f); err != nil {
			return err
		}
	}
	return nil
}

func checkSize(path string, f edgewise.File) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("file %q is missing", f.Path)
	case err != nil:
		return fmt.Errorf("file %q: %w", f.Path, database.Bare(err))
	case !info.Mode().IsRegular():
		return fmt.Errorf("file %q is not a regular file", f.Path)
	case info.Size() != f.Size:
		return fmt.Errorf("file %q has %d bytes instead of %d", f.Path, info.Size(), f.Size)
	}
	return nil
}

// Report says what Check, Verify or Repair found. It is made to be printed or encoded as JSON.
type Report struct {
	Versions int                `json:"versions"`         // looked at
	Files    int                `json:"files"`            // of those versions
	Bytes    int64              `json:"bytes"`            // of those files
	Hashed   bool               `json:"hashed"`           // whether the files were read and their SHA-256 compared
	Source   string             `json:"source,omitempty"` // Repair: what labels and desired states were taken from
	Findings []database.Finding `json:"findings"`         // empty: all is well
}

// OK tells whether nothing was found.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// String returns the report as lines of text for people.
func (r *Report) String() string {
	var b strings.Builder
	how := "present and of the right size"
	if r.Hashed {
		how = "read and compared with their SHA-256"
	}
	fmt.Fprintf(&b, "%d versions, %d files, %d bytes: %s\n", r.Versions, r.Files, r.Bytes, how)
	if r.Source != "" {
		fmt.Fprintf(&b, "labels and desired states from: %s\n", r.Source)
	}
	for _, f := range r.Findings {
		b.WriteString(f.String())
		b.WriteByte('\n')
	}
	if r.OK() {
		b.WriteString("no problems\n")
	}
	return b.String()
}

func (r *Report) count(v *edgewise.Version) {
	r.Versions, r.Files, r.Bytes = r.Versions+1, r.Files+len(v.Files), r.Bytes+v.Size
}

func (r *Report) find(id edgewise.ModelID, path, action, format string, args ...any) {
	r.Findings = append(r.Findings, database.Finding{Model: id, Path: path, Problem: fmt.Sprintf(format, args...), Action: action})
}

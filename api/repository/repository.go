// Package repository reads a folder in Triton's model repository layout:
//
//	<repository>/<model>/[config.pbtxt] [labels.txt ...] <version>/model.onnx [weights ...]
//
// Each version becomes one upload: the files of the model's folder and those of the version's folder side by side. The
// version's folder may be empty when a configuration stands in the model's folder, as it is for an ensemble.
package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Bounds of what is read from a repository.
const (
	MaxModels   = 10_000 // models of one repository
	MaxVersions = 10_000 // versions of one model
	MaxFiles    = 10_000 // files of one version

	MaxConfigBytes = 256 << 10 // of a model's configuration, as wherever one is read
)

// Version is one version found in a repository.
type Version struct {
	ID    edgewise.ModelID
	Files []File // sorted by Path
	Size  int64  // bytes of all files together
}

// File is one file of a version.
type File struct {
	Path   string // inside the version, slash-separated
	Source string // on this machine; empty when Data has its bytes
	Size   int64  // bytes

	Data    []byte // the bytes of a file that stands nowhere on this machine
	Changed int64  // when it was written, in nanoseconds since 1970; 0 when that is not known
}

// Read lists the versions in a repository, by model and number; a model whose configuration names others, as an
// ensemble does, comes behind those. A model's folder may also be given instead of a repository: one with a config file
// or a numbered folder. Folders whose names are not numbers above 0, or have leading zeros, are not versions, as in
// Triton. Links are refused, since what they lead to may change. Errors: Invalid with the path.
func Read(dir string) ([]Version, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, edgewise.Errorf("repository.Read", edgewise.NotFound, "model repository: %w", err)
	}
	if isModel(entries) {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return nil, edgewise.Errorf("repository.Read", edgewise.Internal, "%w", err)
		}
		return readModel(absolute)
	}
	var all []Version
	for i, entry := range entries {
		if i >= MaxModels {
			return nil, invalid(dir, "more than %d entries", MaxModels)
		}
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		versions, err := readModel(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, versions...)
	}
	if len(all) == 0 {
		return nil, invalid(dir, "no model in it: want <model>/<version>/model.onnx")
	}
	return inOrder(all), nil
}

func isModel(entries []os.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		_, numbered := versionNumber(e.Name())
		return e.IsDir() && numbered || !e.IsDir() && strings.HasPrefix(e.Name(), "config.")
	})
}

// versionNumber reads a version folder's name: a number above 0 without leading zeros.
func versionNumber(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}

func readModel(dir string) ([]Version, error) {
	f := Folder{Name: filepath.Base(dir), Dir: dir}
	if err := edgewise.CheckName(f.Name); err != nil {
		return nil, invalid(dir, "%w", err)
	}
	c, err := f.files(walk{})
	if err != nil {
		return nil, err
	}
	if len(c.Versions) == 0 {
		return nil, invalid(dir, "0 version folders: want 1 to %d, named by a number", MaxVersions)
	}
	var versions []Version
	for _, number := range c.Numbers() {
		v, err := merged(edgewise.ModelID{Name: f.Name, Version: number},
			filepath.Join(dir, strconv.FormatInt(number, 10)), c.Shared, c.Versions[number])
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, nil
}

// ReadFolder makes a version of one folder's files. Errors: Invalid with the path.
func ReadFolder(id edgewise.ModelID, dir string) (Version, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Version{}, invalid(dir, "%w", err)
	}
	var w walk
	if err := w.below(absolute, ""); err != nil {
		return Version{}, err
	}
	return merged(id, absolute, nil, w.files)
}

// merged makes a version of the files in its own folder dir and of the shared ones.
func merged(id edgewise.ModelID, dir string, shared, own []File) (Version, error) {
	files := slices.Concat(shared, own)
	slices.SortFunc(files, byPath)
	v := Version{ID: id, Files: files}
	for i, f := range files {
		if i > 0 && files[i-1].Path == f.Path {
			return Version{}, invalid(dir, "%s stands in the version's folder and in the model's", f.Path)
		}
		v.Size += f.Size
	}
	switch {
	case len(files) > MaxFiles:
		return Version{}, invalid(dir, "more than %d files", MaxFiles)
	case len(own) == 0 && !slices.ContainsFunc(shared, func(f File) bool { return isConfig(f.Path) }):
		return Version{}, invalid(dir, "it holds no file")
	}
	return v, nil
}

// SameAs returns nil when a stored version holds exactly the files of this one, and otherwise that versions never
// change (kind Exists).
func (v Version) SameAs(stored []edgewise.File) error {
	different := edgewise.Errorf("repository.SameAs", edgewise.Exists,
		"version %d is stored with other files: versions never change, so give the folder a new number", v.ID.Version)
	if len(stored) != len(v.Files) {
		return different
	}
	for i, f := range v.Files {
		if stored[i].Path != f.Path || stored[i].Size != f.Size {
			return different
		}
		digest, err := digestOf(f.Source)
		if err != nil {
			return err
		}
		if stored[i].Digest != digest {
			return different
		}
	}
	return nil
}

func digestOf(path string) (edgewise.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", invalid(path, "%w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", invalid(path, "%w", err)
	}
	return edgewise.Digest(hex.EncodeToString(h.Sum(nil))), nil
}

// Upload makes an upload of a version. Each file is opened when its turn comes and closed when the next one is asked
// for; Close closes the last one.
func (v Version) Upload(origin string) (edgewise.Upload, io.Closer) {
	r := &reader{files: v.Files}
	return edgewise.Upload{Model: v.ID.Name, Version: v.ID.Version, Origin: origin, Size: v.Size, Next: r.next}, r
}

// reader opens one file after the other.
type reader struct {
	files []File
	open  *os.File
}

func (r *reader) next() (string, int64, io.Reader, error) {
	if err := r.Close(); err != nil {
		return "", 0, nil, err
	}
	if len(r.files) == 0 {
		return "", 0, nil, io.EOF
	}
	f := r.files[0]
	r.files = r.files[1:]
	if f.Source == "" {
		return f.Path, f.Size, bytes.NewReader(f.Data), nil
	}
	var err error
	if r.open, err = os.Open(f.Source); err != nil {
		return "", 0, nil, invalid(f.Source, "%w", err)
	}
	return f.Path, f.Size, r.open, nil
}

// Close closes the file that is open.
func (r *reader) Close() error {
	if r.open == nil {
		return nil
	}
	f := r.open
	r.open = nil
	if err := f.Close(); err != nil {
		return invalid(f.Name(), "%w", err)
	}
	return nil
}

func invalid(what, format string, args ...any) error {
	return edgewise.Errorf("repository.Read", edgewise.Invalid, "%s: %w", what, fmt.Errorf(format, args...))
}

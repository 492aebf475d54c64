// Package repository reads trees of files in Triton's model repository layout:
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
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

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
	Source string // where it is stored; a path of this machine unless its Repository is elsewhere; empty: Data has its bytes
	Size   int64  // bytes

	Data    []byte // the bytes of a file without a Source
	Changed int64  // when it was written, in nanoseconds since 1970; 0 when that is not known
	Tag     Tag    // of this state of the file; empty: its repository has none

	fsys fs.FS // has the file under name; nil: Source is a path of this machine
	name string
}

func (f File) open() (io.ReadCloser, error) {
	switch {
	case f.Source == "":
		return io.NopCloser(bytes.NewReader(f.Data)), nil
	case f.fsys != nil:
		return f.fsys.Open(f.name)
	}
	return os.Open(f.Source)
}

// start returns the first bytes of a file, all of one that has no more.
func (f File) start(most int64) ([]byte, error) {
	in, err := f.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return io.ReadAll(io.LimitReader(in, most))
}

// merged makes a version of the files in its own folder, which is at place, and of the shared ones.
func merged(id edgewise.ModelID, place string, shared, own []File) (Version, error) {
	files := slices.Concat(shared, own)
	slices.SortFunc(files, byPath)
	v := Version{ID: id, Files: files}
	for i, f := range files {
		if i > 0 && files[i-1].Path == f.Path {
			return Version{}, invalid(place, "%s stands in the version's folder and in the model's", f.Path)
		}
		v.Size += f.Size
	}
	switch {
	case len(files) > MaxFiles:
		return Version{}, invalid(place, "more than %d files", MaxFiles)
	case len(own) == 0 && !slices.ContainsFunc(shared, File.isConfig):
		return Version{}, invalid(place, "it holds no file")
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
		digest, err := f.Digest()
		if err != nil {
			return err
		}
		if stored[i].Digest != digest {
			return different
		}
	}
	return nil
}

// Stored returns the files as the store describes them.
func (v Version) Stored() ([]edgewise.File, error) {
	list := make([]edgewise.File, 0, len(v.Files))
	for _, f := range v.Files {
		digest, err := f.Digest()
		if err != nil {
			return nil, err
		}
		list = append(list, edgewise.File{Path: f.Path, Size: f.Size, Digest: digest})
	}
	return list, nil
}

// Digest reads the whole file.
func (f File) Digest() (edgewise.Digest, error) {
	in, err := f.open()
	if err != nil {
		return "", invalid(f.Source, "%w", reason(err))
	}
	defer func() { _ = in.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		return "", invalid(f.Source, "%w", reason(err))
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
	open  io.ReadCloser // nil: none
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
	in, err := f.open()
	if err != nil {
		return "", 0, nil, invalid(f.Source, "%w", reason(err))
	}
	r.open = in
	return f.Path, f.Size, in, nil
}

// Close closes the file that is open.
func (r *reader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}

// reason returns what is wrong with a file without the path that package fs puts before it.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

func invalid(what, format string, args ...any) error {
	return edgewise.Errorf("repository.Read", edgewise.Invalid, "%s: %w", what, fmt.Errorf(format, args...))
}

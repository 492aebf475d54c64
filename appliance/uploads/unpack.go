package uploads

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/tarfile"
)

// maxRatio bounds how much larger an archive may become, against archives made to fill disks.
const maxRatio = 200

// Limits bound what is unpacked.
type Limits struct {
	Bytes int64                  // of all files together
	Files int                    // and as many folders
	Room  func(size int64) error // tells whether so many bytes more may be written
}

// Unpack writes the files of a zip or tar archive below dir, which it makes again. Nothing is written outside it.
// Entries that are neither file nor folder are refused, and so are paths that edgewise.CheckPath refuses, though an
// archive may have one folder around everything. Errors: Invalid, TooLarge, Exhausted.
func Unpack(kind, archive, dir string, limits Limits, progress func(done int64)) error {
	const op = "uploads.Unpack"
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, folderMode)); err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", bare(err))
	}
	info, err := os.Stat(archive)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", bare(err))
	}
	u := &unpacker{dir: dir, limits: limits, seen: map[string]bool{}, progress: progress}
	u.limits.Bytes = min(limits.Bytes, max(info.Size(), 1<<20)*maxRatio)
	if kind == Zip {
		return u.zip(archive, info.Size())
	}
	return u.tar(archive)
}

type unpacker struct {
	dir      string
	limits   Limits
	seen     map[string]bool // by path in small letters
	files    int
	bytes    int64
	progress func(int64)
}

// What the list at the end of a zip archive may take. It is in memory at once, several times as large.
const (
	listEnd   = 256 << 10 // bytes in which the list is looked for
	listEntry = 1 << 10   // bytes of an entry
)

var errList = errors.New("the list of the archive is too long")

// listReader reads an archive: no more than what is left until its list has been read.
type listReader struct {
	file io.ReaderAt
	left int64
	read bool // the list
}

func (l *listReader) ReadAt(p []byte, at int64) (int, error) {
	if !l.read {
		if l.left -= int64(len(p)); l.left < 0 {
			return 0, errList
		}
	}
	return l.file.ReadAt(p, at)
}

func (u *unpacker) zip(archive string, size int64) error {
	const op = "uploads.Unpack"
	f, err := os.Open(archive)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", bare(err))
	}
	defer func() { _ = f.Close() }()
	list := &listReader{file: f, left: listEnd + int64(u.limits.Files)*2*listEntry}
	r, err := zip.NewReader(list, size)
	switch {
	case errors.Is(err, errList):
		return u.tooMany()
	case err != nil:
		return edgewise.Errorf(op, edgewise.Invalid, "this is no zip archive that can be read: %w", bare(err))
	}
	list.read = true
	if len(r.File) > 2*u.limits.Files {
		return u.tooMany()
	}
	var declared uint64
	for _, f := range r.File {
		if declared += f.UncompressedSize64; declared > uint64(u.limits.Bytes) ||
			f.UncompressedSize64 > uint64(u.limits.Bytes) {
			return u.tooLarge()
		}
	}
	if err := u.limits.Room(int64(declared)); err != nil {
		return err
	}
	for _, f := range r.File {
		if f.FileInfo().IsDir() {
			continue
		}
		body, err := f.Open()
		if err != nil {
			return edgewise.Errorf(op, edgewise.Invalid, "entry %.200q cannot be read: %w", f.Name, err)
		}
		err = u.add(f.Name, f.Mode(), body)
		if err = errors.Join(err, body.Close()); err != nil {
			return first(err)
		}
	}
	return u.finish()
}

func (u *unpacker) tar(archive string) error {
	const op = "uploads.Unpack"
	f, err := os.Open(archive)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "%w", bare(err))
	}
	defer func() { _ = f.Close() }()
	for r := tarfile.NewReader(f); ; {
		entry, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return u.finish()
		case err != nil:
			return edgewise.Errorf(op, edgewise.Invalid, "this is no tar archive that can be read: %w", err)
		case entry.Typeflag == tar.TypeDir || entry.Typeflag == tar.TypeXGlobalHeader:
			continue
		case entry.Typeflag != tar.TypeReg:
			return notAFile(entry.Name)
		}
		if entry.Size > u.limits.Bytes-u.bytes {
			return u.tooLarge()
		}
		if err := u.limits.Room(entry.Size); err != nil {
			return err
		}
		if err := u.add(entry.Name, entry.FileInfo().Mode(), r); err != nil {
			return err
		}
	}
}

// first returns the first of joined errors that is one of ours, else all of them as one.
func first(err error) error {
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		return own
	}
	return edgewise.Errorf("uploads.Unpack", edgewise.Invalid, "the archive is damaged: %w", err)
}

func (u *unpacker) finish() error {
	if u.files == 0 {
		return edgewise.Errorf("uploads.Unpack", edgewise.Invalid, "the archive holds no file")
	}
	return nil
}

// ignored tells whether an entry is what other systems leave in archives.
func ignored(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(name, "__MACOSX/") || base == ".DS_Store" || base == "Thumbs.db" ||
		strings.HasPrefix(base, "._")
}

func (u *unpacker) add(name string, mode fs.FileMode, body io.Reader) error {
	const op = "uploads.Unpack"
	name = strings.TrimPrefix(name, "./")
	if ignored(name) {
		return nil
	}
	if err := edgewise.CheckPath(name); err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "the archive is refused: %w", err)
	}
	if !mode.IsRegular() {
		return notAFile(name)
	}
	if u.seen[strings.ToLower(name)] {
		return edgewise.Errorf(op, edgewise.Invalid, "entry %.200q stands in the archive twice", name)
	}
	u.seen[strings.ToLower(name)] = true
	if u.files++; u.files > u.limits.Files {
		return u.tooMany()
	}
	target := filepath.Join(u.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(target), folderMode); err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "entry %.200q stands below a file", name)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "entry %.200q: %w", name, bare(err))
	}
	err = u.write(f, body, name)
	if closing := f.Close(); err == nil && closing != nil {
		err = edgewise.Errorf(op, edgewise.Exhausted, "entry %.200q: %w", name, bare(closing))
	}
	return err
}

func notAFile(name string) error {
	return edgewise.Errorf("uploads.Unpack", edgewise.Invalid, "entry %.200q is a link or a device: want files and "+
		"folders alone", name)
}

func (u *unpacker) write(f *os.File, body io.Reader, name string) error {
	buffer := make([]byte, bufSize)
	for {
		n, err := body.Read(buffer)
		if u.bytes += int64(n); u.bytes > u.limits.Bytes {
			return u.tooLarge()
		}
		if _, bad := f.Write(buffer[:n]); bad != nil {
			return edgewise.Errorf("uploads.Unpack", edgewise.Exhausted, "entry %.200q: %w", name, bare(bad))
		}
		u.progress(u.bytes)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return edgewise.Errorf("uploads.Unpack", edgewise.Invalid, "entry %.200q is damaged: %w", name, err)
		}
	}
}

func (u *unpacker) tooLarge() error {
	return edgewise.Errorf("uploads.Unpack", edgewise.TooLarge, "the archive holds more than %d bytes, which is the "+
		"limit for one of its size (upload.max_bytes, and %d times the archive)", u.limits.Bytes, maxRatio).WithLimit(u.limits.Bytes)
}

func (u *unpacker) tooMany() error {
	return edgewise.Errorf("uploads.Unpack", edgewise.TooLarge, "the archive holds more than %d files (upload.max_files)",
		u.limits.Files).WithLimit(int64(u.limits.Files))
}

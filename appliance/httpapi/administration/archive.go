package administration

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/tarfile"
)

// single returns the Upload.Next of a body that is one file.
func single(name string, size int64, body *checked) func() (string, int64, io.Reader, error) {
	begun := false
	return func() (string, int64, io.Reader, error) {
		if begun {
			return "", 0, nil, ended(body.finish())
		}
		begun = true
		return name, size, body, nil
	}
}

// archive is a tar stream of a version's files: regular files and folders only, in clean relative paths.
type archive struct {
	body     *checked
	tar      *tarfile.Reader
	maxBytes int64 // of one file; the body's own limit bounds all together
	maxFiles int   // and as many folders
	files    int
	folders  int
	seen     map[string]bool // by path; true: a file
}

func newArchive(body *checked, cfg *httpapi.Config) *archive {
	return &archive{
		body: body, tar: tarfile.NewReader(body), maxBytes: cfg.MaxUploadBytes, maxFiles: cfg.MaxUploadFiles,
		seen: make(map[string]bool),
	}
}

// next is the archive's Upload.Next. Errors: Invalid, TooLarge, and those of the body.
func (a *archive) next() (string, int64, io.Reader, error) {
	for {
		entry, err := a.tar.Next()
		if errors.Is(err, io.EOF) {
			return "", 0, nil, a.finish()
		}
		if err != nil {
			return "", 0, nil, unpackError(err)
		}
		if err := a.count(entry.Typeflag); err != nil {
			return "", 0, nil, err
		}
		name, err := a.check(entry)
		if err != nil {
			return "", 0, nil, err
		}
		if name != "" {
			return name, entry.Size, unpacked{a.tar}, nil
		}
	}
}

func (a *archive) count(kind byte) error {
	if kind == tar.TypeDir {
		a.folders++
	} else {
		a.files++
	}
	if a.files > a.maxFiles || a.folders > a.maxFiles {
		return edgewise.Errorf("administration.archive", edgewise.TooLarge, "the archive has more than %d files or folders "+
			"(upload.max_files)", a.maxFiles)
	}
	return nil
}

func (a *archive) finish() error {
	if a.files == 0 {
		return edgewise.Errorf("administration.archive", edgewise.Invalid, "the body is a tar archive without a file")
	}
	return ended(a.body.finish())
}

// check returns the path of a file, and "" for a folder.
func (a *archive) check(entry *tar.Header) (string, error) {
	const op = "administration.archive"
	name := strings.TrimPrefix(entry.Name, "./")
	switch entry.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		name = strings.TrimSuffix(name, "/")
		if name == "" || name == "." {
			return "", nil
		}
	default:
		return "", edgewise.Errorf(op, edgewise.Invalid, "archive entry %.200q is of type %q: only regular files and "+
			"folders are taken", entry.Name, entry.Typeflag)
	}
	if err := edgewise.CheckPath(name); err != nil {
		return "", edgewise.Errorf(op, edgewise.Invalid, "archive: %w", err)
	}
	if entry.Size > a.maxBytes {
		return "", edgewise.Errorf(op, edgewise.TooLarge, "archive entry %.200q has %d bytes, an upload may have %d "+
			"(upload.max_bytes)", entry.Name, entry.Size, a.maxBytes)
	}
	if sparse(entry) {
		return "", edgewise.Errorf(op, edgewise.Invalid, "archive entry %.200q is sparse: pack it without --sparse",
			entry.Name)
	}
	if err := a.place(name, entry.Typeflag == tar.TypeReg); err != nil {
		return "", err
	}
	if entry.Typeflag == tar.TypeDir {
		return "", nil
	}
	return name, nil
}

// place refuses a file that stands where something else does, or below a file.
func (a *archive) place(name string, file bool) error {
	const op = "administration.archive"
	if other, ok := a.seen[name]; ok && (file || other) {
		return edgewise.Errorf(op, edgewise.Invalid, "archive entry %.200q appears twice", name)
	}
	a.seen[name] = file
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		if a.seen[folder] {
			return edgewise.Errorf(op, edgewise.Invalid, "archive entry %.200q lies below %.200q, which is a file", name, folder)
		}
		a.seen[folder] = false
	}
	return nil
}

// sparse tells whether the entry's bytes in the archive are not the file's.
func sparse(entry *tar.Header) bool {
	for key := range entry.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return entry.Typeflag == tar.TypeGNUSparse
}

// unpacked gives the bytes of an archive's current file.
type unpacked struct{ tar *tarfile.Reader }

func (u unpacked) Read(p []byte) (int, error) {
	n, err := u.tar.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unpackError(err)
	}
	return n, err
}

// unpackError passes on what the body ended in; anything else is the archive's own fault.
func unpackError(err error) error {
	if _, ok := errors.AsType[*edgewise.Error](err); ok {
		return err
	}
	return edgewise.Errorf("administration.archive", edgewise.Invalid, "the body is not a readable tar archive: %w", err)
}

// ended turns success into the end of an upload.
func ended(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

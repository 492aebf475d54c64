package remote

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

const (
	carFolder    = "models/"  // of an image, in which KServe finds a model
	removed      = ".wh."     // begins the name of a file that removes another of a layer below
	removedAll   = ".wh..wh." // of one that removes all of its folder; what follows is .opq
	maxEntries   = 1_000_000  // of a layer: an image has those of its system, too
	maxCarLayers = 1 << 40    // bytes of a layer, unpacked
)

// unpackLayer unpacks what a layer of an image has below /models into a folder, over what the layers below have there. limits are
// what may still be unpacked. Errors: Invalid, TooLarge, Unsupported, Exhausted.
func unpackLayer(layer, name, folder string, limits *limits) error {
	const op = "remote.unpackLayer"
	f, err := os.Open(layer)
	if err != nil {
		return edgewise.Errorf(op, edgewise.Internal, "layer %s cannot be read", name)
	}
	defer func() { _ = f.Close() }()
	var in io.Reader = bufio.NewReaderSize(f, 256<<10)
	switch path.Ext(name) {
	case ".gz":
		if in, err = gzip.NewReader(in); err != nil {
			return edgewise.Errorf(op, edgewise.Invalid, "%s is no layer that gzip has packed: %w", name, err)
		}
	case ".zst":
		return edgewise.Errorf(op, edgewise.Unsupported, "%s is packed by zstd: publish the image with layers of gzip", name)
	}
	t := tar.NewReader(io.LimitReader(in, maxCarLayers))
	for range maxEntries {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return edgewise.Errorf(op, edgewise.Invalid, "%s is no layer of an image: %w", name, err)
		}
		inside, ok := strings.CutPrefix(path.Clean("/"+header.Name), "/"+carFolder)
		if !ok {
			continue
		}
		if err := unpackEntry(t, header, inside, folder, limits); err != nil {
			return err
		}
	}
	return edgewise.Errorf(op, edgewise.TooLarge, "%s has more than %d entries", name, maxEntries)
}

// unpackEntry unpacks one entry of a layer.
func unpackEntry(t *tar.Reader, header *tar.Header, inside, folder string, limits *limits) error {
	const op = "remote.unpackEntry"
	if err := edgewise.CheckPath(inside); err != nil {
		return edgewise.Errorf(op, edgewise.Invalid, "the image: %w", err)
	}
	to := filepath.Join(folder, filepath.FromSlash(inside))
	base := path.Base(inside)
	switch {
	case strings.HasPrefix(base, removedAll):
		return onDisk(errors.Join(os.RemoveAll(filepath.Dir(to)), os.MkdirAll(filepath.Dir(to), 0o750)))
	case strings.HasPrefix(base, removed):
		if err := edgewise.CheckPath(base[len(removed):]); err != nil {
			return edgewise.Errorf(op, edgewise.Invalid, "the image: %w", err)
		}
		return onDisk(os.RemoveAll(filepath.Join(filepath.Dir(to), base[len(removed):])))
	case header.Typeflag == tar.TypeDir:
		return onDisk(os.MkdirAll(to, 0o750))
	case header.Typeflag != tar.TypeReg:
		return edgewise.Errorf(op, edgewise.Unsupported, "the image has %q as a link or a device: want files and folders below /models", inside)
	}
	limits.files--
	limits.bytes -= header.Size
	if limits.files < 0 || limits.bytes < 0 {
		return edgewise.Errorf(op, edgewise.TooLarge, "the image has more or larger files below /models than are allowed (upload.max_bytes, "+
			"upload.max_files)")
	}
	err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.RemoveAll(to))
	if err != nil {
		return onDisk(err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return onDisk(err)
	}
	_, err = io.Copy(out, t)
	if err = errors.Join(err, out.Close()); errors.Is(err, io.ErrUnexpectedEOF) {
		return edgewise.Errorf(op, edgewise.Invalid, "the image ends within %q", inside)
	}
	return onDisk(err)
}

// onDisk is the error of writing what was fetched.
func onDisk(err error) error {
	if err == nil {
		return nil
	}
	return edgewise.Errorf("remote.unpack", edgewise.Exhausted, "what was fetched cannot be unpacked: %w", cause(err))
}

// cause is an error without the path that it happened at.
func cause(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at.Err
	}
	return err
}

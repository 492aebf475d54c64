package external

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// folder is a model's folder as Triton lays it out, made of links to the version's files, and the folder that a process
// may write in.
type folder struct {
	base    string // of both
	root    string // the model's folder
	version string // the version's folder in it
	files   string // where the files really stand
	scratch string // "" when there is none
}

// newFolder makes the folder of a version below parent. Its files stand in dir.
func newFolder(parent, dir, name string, version int64, scratch bool) (*folder, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp(parent, "model-")
	if err != nil {
		return nil, err
	}
	f := &folder{base: base, root: filepath.Join(base, "models", name), files: dir}
	f.version = filepath.Join(f.root, strconv.FormatInt(version, 10))
	if err = f.link(dir); err == nil && scratch {
		f.scratch = filepath.Join(base, "scratch")
		err = os.Mkdir(f.scratch, 0o700)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// link links the version's folder, and beside it each of its files: configurations name some of them from there.
func (f *folder) link(dir string) error {
	if err := os.MkdirAll(f.root, 0o700); err != nil {
		return err
	}
	if err := os.Symlink(dir, f.version); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		err := os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(f.root, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func (f *folder) remove() { _ = os.RemoveAll(f.base) }

// maxScratchFiles bounds the files that a process may have in its folder.
const maxScratchFiles = 10_000

// usage returns how many bytes the files below a folder take on the disk, and whether there are too many.
func usage(path string) (bytes int64, many bool) {
	n := 0
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if n++; n > maxScratchFiles {
			many = true
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			bytes += blocks(info)
		}
		return nil
	})
	return bytes, many
}

// blocks is what a file takes on the disk, in bytes.
func blocks(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}

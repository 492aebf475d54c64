package compiled

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// Folder is what one maker has compiled for one version.
type Folder struct {
	cache   *Cache
	kind    Kind
	version edgewise.ModelID
	dir     string
	sealed  map[string]file // what is there by the seal; nil: nothing
}

// file is one file as it was sealed.
type file struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	SHA256   string    `json:"sha256"`
}

// Bounds of what is sealed.
const (
	maxFiles = 4096
	maxSeal  = 4 << 20 // bytes of the seal itself
)

// Path is the folder in which the process of the version writes.
func (f *Folder) Path() string { return filepath.Join(f.dir, filesName) }

// Share is how many bytes it may hold.
func (f *Folder) Share() int64 { return f.kind.Share() }

// check empties a folder that is not as it was sealed: a file that is damaged, cut off or not complete costs that the
// version is compiled once more. The caller holds the cache's mu.
func (f *Folder) check() {
	if !f.kind.Sealed {
		return
	}
	f.sealed = f.seal()
	now, err := f.read(nil)
	if err == nil && equal(now, f.sealed) {
		return
	}
	if len(now) > 0 || err != nil {
		f.cache.Logger.Warn("what was compiled for a model is compiled again: it is not as it was left", "model",
			f.version.String(), "folder", f.dir, "error", err)
	}
	f.cache.empty(f.dir)
	f.sealed = nil
}

// equal compares contents, whenever they were written.
func equal(a, b map[string]file) bool {
	return maps.EqualFunc(a, b, func(a, b file) bool { return a.Size == b.Size && a.SHA256 == b.SHA256 })
}

// seal reads the seal, nil when there is none.
func (f *Folder) seal() map[string]file {
	r, err := os.Open(filepath.Join(f.dir, sealName))
	if err != nil {
		return nil
	}
	defer r.Close()
	content, err := io.ReadAll(io.LimitReader(r, maxSeal))
	var files map[string]file
	if err != nil || json.Unmarshal(content, &files) != nil {
		return nil
	}
	return files
}

// Seal notes what is in the folder now, after its process has loaded with it: the next one uses it as it is. Files of a
// kind that is not sealed are looked at for their size alone.
func (f *Folder) Seal() {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	defer f.cache.trim(f.kind, f.dir)
	if !f.kind.Sealed {
		return
	}
	now, err := f.read(f.sealed)
	if err == nil && maps.EqualFunc(now, f.sealed, func(a, b file) bool { return a.SHA256 == b.SHA256 }) {
		return
	}
	if err == nil {
		err = f.write(now)
	}
	if err != nil {
		f.cache.Logger.Warn("what was compiled for a model is not kept", "model", f.version.String(), "folder", f.dir, "error", err)
		f.cache.empty(f.dir)
		f.sealed = nil
		return
	}
	f.sealed = now
}

// Clear removes what is in the folder, and tells whether anything was.
func (f *Folder) Clear() (something bool) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	entries, _ := os.ReadDir(f.Path())
	f.cache.empty(f.dir)
	f.sealed = nil
	return len(entries) > 0
}

// read reads all files in the folder, and has the disk keep those that are new. One that is as known, by size and time,
// is not read again.
func (f *Folder) read(known map[string]file) (map[string]file, error) {
	files, left := map[string]file{}, f.Share()
	err := filepath.WalkDir(f.Path(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(f.Path(), path)
		if err != nil {
			return err
		}
		one, err := readFile(path, known[name], left)
		if err != nil {
			return fmt.Errorf("%.200q: %w", name, err)
		}
		files[name] = one
		if left -= one.Size; len(files) > maxFiles {
			return fmt.Errorf("there are more than %d files", maxFiles)
		}
		return nil
	})
	return files, err
}

// readFile reads one file of at most so many bytes. A process that is not trusted has written it: it may be anything.
func readFile(path string, known file, most int64) (file, error) {
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return file{}, err
	}
	defer r.Close()
	info, err := r.Stat()
	switch {
	case err != nil:
		return file{}, err
	case !info.Mode().IsRegular():
		return file{}, errors.New("it is no file")
	case info.Size() > most:
		return file{}, fmt.Errorf("it has %d bytes, and %d are left of what may be kept for a version", info.Size(), most)
	case known.SHA256 != "" && known.Size == info.Size() && known.Modified.Equal(info.ModTime()):
		return known, nil
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(r, info.Size()))
	if err == nil && n != info.Size() {
		err = io.ErrUnexpectedEOF
	}
	return file{n, info.ModTime(), hex.EncodeToString(sum.Sum(nil))}, err
}

// write has the disk keep the files, and then the seal, which it puts in place in one step.
func (f *Folder) write(files map[string]file) error {
	for name := range files {
		if err := flush(filepath.Join(f.Path(), name)); err != nil {
			return err
		}
	}
	content, err := json.Marshal(files)
	if err != nil {
		return err
	}
	fresh := filepath.Join(f.dir, sealName+".new")
	if err := errors.Join(os.WriteFile(fresh, content, 0o600), flush(fresh)); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return errors.Join(os.Rename(fresh, filepath.Join(f.dir, sealName)), flush(f.dir))
}

// flush has the disk keep a file or a folder.
func flush(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

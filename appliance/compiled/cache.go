// Package compiled keeps what drivers and providers of devices compile for models: shaders, kernels, engines. Each version
// has a folder for each device, driver and runtime, in which its own process alone may write.
package compiled

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Kind is who compiles for devices of a kind, and how it is kept.
type Kind struct {
	Name  string // begins the names of its folders
	Bytes int64  // what all folders of the kind may hold; above it those that were used longest ago go
	// Sealed says that nobody but this package notices a file that is damaged: a folder is used only as it was sealed.
	Sealed bool
}

// share is how many versions fill a kind's bytes at least: what one may keep is that part of them.
const share = 4

// Share is how many bytes one folder of the kind may hold.
func (k Kind) Share() int64 { return k.Bytes / share }

// Maker is what compiles: the device, its driver and the runtime, as text that changes with each of them.
type Maker struct {
	Kind string // name of a Kind
	Text string
}

func (m Maker) name() string { return m.Kind + "-" + digest(m.Text) }

// Cache is a folder with a folder for each version, which has one for each maker. The zero value keeps nothing. Its
// methods are safe for concurrent use.
type Cache struct {
	Dir    string
	Kinds  []Kind
	Logger *slog.Logger

	mu sync.Mutex // held while folders are made and removed
}

// Names of what is in the folder of a maker.
const (
	filesName = "files" // a folder in which the process of the version writes
	sealName  = "seal"  // the digests of its files
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// nameOf is the name of a version's folder. Another content under the same number has another one.
func nameOf(v *edgewise.Version) string {
	return digest(v.StoredID().String() + " " + string(v.Digest))
}

// Open returns the folder in which a maker keeps what it compiles for a version, made if it was not there, with what is
// in it checked. nil: nothing is kept, because there is no such kind, or the folder cannot be made.
func (c *Cache) Open(v *edgewise.Version, m Maker) *Folder {
	at := slices.IndexFunc(c.Kinds, func(k Kind) bool { return k.Name == m.Kind })
	if at < 0 {
		return nil
	}
	f := &Folder{cache: c, kind: c.Kinds[at], version: v.ID, dir: filepath.Join(c.Dir, nameOf(v), m.name())}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := os.MkdirAll(f.Path(), 0o700)
	if err == nil {
		err = os.Chtimes(f.dir, time.Now(), time.Now())
	}
	if err != nil {
		c.Logger.Warn("what is compiled for a model is not kept", "model", v.ID.String(), "folder", f.dir, "error", err)
		return nil
	}
	f.check()
	c.trim(f.kind, f.dir)
	return f
}

// Prune removes what makers have made that are no more: those of the kinds among makers that are not among them.
func (c *Cache) Prune(makers []Maker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.list() {
		ofKind := func(m Maker) bool { return m.Kind == e.kind }
		same := func(m Maker) bool { return m.name() == filepath.Base(e.path) }
		if slices.ContainsFunc(makers, ofKind) && !slices.ContainsFunc(makers, same) {
			c.remove(e.path)
		}
	}
}

// Sweep removes what was compiled for versions that are not stored any more, and what is over the bounds.
func (c *Cache) Sweep(stored func() []*edgewise.Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, err := os.ReadDir(c.Dir)
	if err != nil || len(entries) == 0 { // most boxes have none
		return
	}
	names := map[string]bool{}
	for _, v := range stored() {
		names[nameOf(v)] = true
	}
	for _, e := range entries {
		if !names[e.Name()] {
			c.remove(filepath.Join(c.Dir, e.Name()))
		}
	}
	for _, k := range c.Kinds {
		c.trim(k, "")
	}
}

// entry is the folder of a maker for a version.
type entry struct {
	path, kind string
	last       time.Time
	bytes      int64
}

// list returns the folders that there are. The caller holds mu.
func (c *Cache) list() (list []entry) {
	found, _ := filepath.Glob(filepath.Join(c.Dir, "*", "*-*")) // the pattern is a good one
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		kind, _, _ := strings.Cut(filepath.Base(path), "-")
		list = append(list, entry{path, kind, info.ModTime(), size(path)})
	}
	return list
}

// trim empties the folders of a kind that hold more than their share, and removes those that were used longest ago until
// the others have room; not the one that is being used. The caller holds mu.
func (c *Cache) trim(k Kind, used string) {
	list := slices.DeleteFunc(c.list(), func(e entry) bool { return e.kind != k.Name })
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.path, b.path)) })
	var sum int64
	for i := range list {
		if e := &list[i]; e.bytes > k.Share() {
			c.Logger.Warn("what was compiled for a model is removed", "folder", e.path, "reason",
				fmt.Sprintf("it takes %d bytes, and may take %d", e.bytes, k.Share()))
			c.empty(e.path)
			e.bytes = 0
		}
		sum += list[i].bytes
	}
	for _, e := range list {
		if sum <= k.Bytes {
			return
		}
		if e.path != used && c.remove(e.path) {
			sum -= e.bytes
		}
	}
}

// remove removes a folder, and that of its version when it was the last one there.
func (c *Cache) remove(path string) bool {
	if err := os.RemoveAll(path); err != nil {
		c.Logger.Warn("what was compiled for a model stays", "folder", path, "error", err)
		return false
	}
	if parent := filepath.Dir(path); parent != filepath.Clean(c.Dir) {
		_ = os.Remove(parent) // unless there is another one
	}
	return true
}

// empty removes what is in the folder of a maker. A process that runs may go on writing there.
func (c *Cache) empty(path string) {
	err := os.Remove(filepath.Join(path, sealName))
	files := filepath.Join(path, filesName)
	entries, _ := os.ReadDir(files)
	for _, e := range entries {
		err = os.RemoveAll(filepath.Join(files, e.Name()))
	}
	if err != nil && !os.IsNotExist(err) {
		c.Logger.Warn("what was compiled for a model stays", "folder", path, "error", err)
	}
}

// size adds up the files below a folder.
func size(folder string) (sum int64) {
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that has gone takes nothing
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

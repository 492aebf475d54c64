package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// cache keeps compiled modules on disk: a folder for each, named by the digest of the rewritten module, with what the
// runtime writes there and a seal, the digests of those files. The runtime trusts what it reads, so a folder whose seal
// is missing or wrong is removed before it gets to see it.
type cache struct {
	dir   string
	bytes int64
}

// sealName is the file that says what else is in a folder.
const sealName = "SHA256SUMS"

// folder returns where a module's compiled form is kept, ready for use: intact, or empty.
func (c cache) folder(module []byte) (string, error) {
	digest := sha256.Sum256(module)
	dir := filepath.Join(c.dir, hex.EncodeToString(digest[:]))
	if sums, err := sum(dir); err == nil && intact(dir, sums) {
		now := time.Now()
		return dir, os.Chtimes(filepath.Join(dir, sealName), now, now)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func intact(dir string, sums []byte) bool {
	seal, err := os.ReadFile(filepath.Join(dir, sealName))
	return err == nil && bytes.Equal(seal, sums)
}

// seal writes down what a folder holds, unless it says so already.
func (c cache) seal(dir string) error {
	sums, err := sum(dir)
	if err != nil || intact(dir, sums) {
		return err
	}
	fresh := filepath.Join(dir, sealName+".tmp")
	if err := os.WriteFile(fresh, sums, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(dir, sealName))
}

// sum returns a line with digest and path for each file of a folder but the seal.
func sum(dir string) ([]byte, error) {
	var sums []byte
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sealName || d.Name() == sealName+".tmp" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sums = fmt.Appendf(sums, "%x  %s\n", h.Sum(nil), filepath.ToSlash(name))
		return err
	})
	return sums, err
}

// prune removes the folders that were used longest ago while there is more than there may be.
func (c cache) prune() error {
	type entry struct {
		dir  string
		size int64
		at   time.Time
	}
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var entries []entry
	total := int64(0)
	for _, f := range folders {
		e := entry{dir: filepath.Join(c.dir, f.Name())}
		err := filepath.WalkDir(e.dir, func(_ string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if d.Name() == sealName {
				e.at = info.ModTime()
			}
			e.size += info.Size()
			return nil
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		entries = append(entries, e)
		total += e.size
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	for _, e := range entries {
		if total <= c.bytes {
			return nil
		}
		if err := os.RemoveAll(e.dir); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}

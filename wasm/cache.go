package wasm

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// cache keeps machine code on disk: a folder for each module, with what the compiler wrote there and a seal over
// it. The runtime runs what it reads, so the seal is made with a secret key, which stands beside the folder and not
// in it: what another box, another program or an attacker with rights on the folder alone has put there is removed
// before the runtime sees it.
//
// The runtime's own file in an entry is named by the module, the runtime's version and the processor's features, so
// an entry that was made for others is found missing.
type cache struct {
	dir   string // empty: machine code is not kept
	bytes int64

	mu     sync.Mutex // guards what follows
	secret []byte     // nil: not read yet
}

// Names in the cache.
const (
	sealName    = "SEAL"    // of an entry: the digests of its other files, and their authentication
	refusalName = "refused" // of an entry: in place of machine code, why there is none
	stagePrefix = "new-"    // of the folder of a module that is being compiled
	keySuffix   = ".key"    // of the file of the secret key
	keyBytes    = 32
)

// unused is how long a module that is not stored, or was not finished, stays in the cache: it may be about to be
// stored.
const unused = time.Hour

// find returns the entry of a module, and what a compiler said against it; "" when there is none that can be
// trusted.
func (c *cache) find(key string) (entry string, refused error) {
	if c.dir == "" {
		return "", nil
	}
	entry = filepath.Join(c.dir, key)
	seal, err := c.seal(entry, key)
	if err != nil {
		return "", nil
	}
	have, err := os.ReadFile(filepath.Join(entry, sealName))
	if err != nil || !hmac.Equal(have, seal) {
		_ = os.RemoveAll(entry)
		return "", nil
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(entry, sealName), now, now) // for prune; where it fails, the entry goes earlier
	if text, err := os.ReadFile(filepath.Join(entry, refusalName)); err == nil {
		return entry, edgewise.Errorf("wasm.compile", edgewise.TooLarge, "%s", text)
	}
	return entry, nil
}

// stage makes a folder for a compiler to write into: in the cache, where kept is true, or else among temporary
// files.
func (c *cache) stage() (dir string, kept bool, err error) {
	if c.dir != "" {
		if err = c.open(); err == nil {
			dir, err = os.MkdirTemp(c.dir, stagePrefix)
		}
		if err == nil {
			return dir, true, nil
		}
	}
	dir, err = os.MkdirTemp("", "edgewise-step-")
	return dir, false, err
}

// open makes the cache's folder. Error: somebody else may write to it.
func (c *cache) open() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(c.dir)
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other users may write to it: its mode is %v", info.Mode().Perm())
	}
	return err
}

// keep makes a staged folder the entry of a module, and removes the least recently used entries while the cache is
// larger than its limit. A refusal is kept in place of machine code. It returns the entry, or the error for which
// it cannot be kept.
func (c *cache) keep(staged, key string, refused error) (entry string, err error) {
	if refused != nil {
		if err := os.WriteFile(filepath.Join(staged, refusalName), []byte(refused.Error()), 0o600); err != nil {
			return "", err
		}
	}
	seal, err := c.seal(staged, key)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(staged, sealName), seal, 0o600); err != nil {
		return "", err
	}
	if err := c.prune(size(staged)); err != nil {
		return "", err
	}
	entry = filepath.Join(c.dir, key)
	if err := os.RemoveAll(entry); err != nil {
		return "", err
	}
	return entry, os.Rename(staged, entry)
}

// seal returns the authenticated digests of the files in a folder, for an entry of that key.
func (c *cache) seal(dir, key string) ([]byte, error) {
	secret, err := c.key()
	if err != nil {
		return nil, err
	}
	sums := fmt.Appendf(nil, "%s\n", key)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sealName {
			return err
		}
		digest, err := digestOf(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sums = fmt.Appendf(sums, "%x  %s\n", digest, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(sums)
	return fmt.Appendf(sums, "%x\n", mac.Sum(nil)), nil
}

func digestOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}

// key returns the secret key. It makes one when there is none that can be used: all entries are invalid under that.
func (c *cache) key() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.secret != nil {
		return c.secret, nil
	}
	file := c.dir + keySuffix
	if text, err := os.ReadFile(file); err == nil {
		if secret, err := hex.DecodeString(string(bytes.TrimSpace(text))); err == nil && len(secret) == keyBytes {
			c.secret = secret
			return secret, nil
		}
	}
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // it never fails
	fresh := file + ".new"
	if err := os.WriteFile(fresh, fmt.Appendf(nil, "%x\n", secret), 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(fresh, file); err != nil {
		return nil, err
	}
	c.secret = secret
	return secret, nil
}

// cached is an entry, or a staged folder, as prune and sweep see it.
type cached struct {
	dir  string
	size int64
	at   time.Time // when it was used
}

// entries lists the cache, the least recently used entry first.
func (c *cache) entries() ([]cached, error) {
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var list []cached
	for _, f := range folders {
		e := cached{dir: filepath.Join(c.dir, f.Name())}
		e.size = size(e.dir)
		for _, name := range []string{sealName, "."} {
			if info, err := os.Stat(filepath.Join(e.dir, name)); err == nil {
				e.at = info.ModTime()
				break
			}
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b cached) int { return a.at.Compare(b.at) })
	return list, nil
}

// size returns the bytes of the files below a folder, as far as they can be seen.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// errLarge is why machine code above the size of the whole cache is not kept.
var errLarge = errors.New("a compiled step is larger than the whole cache")

// prune removes the entries that were used longest ago until there is room for one of so many bytes, which is
// staged already.
func (c *cache) prune(room int64) error {
	if room > c.bytes {
		return errLarge
	}
	list, err := c.entries()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, e := range list {
		if !e.staged() {
			total += e.size
		}
	}
	for _, e := range list {
		if total+room <= c.bytes {
			return nil
		}
		if e.staged() {
			continue
		}
		if err := os.RemoveAll(e.dir); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}

func (e cached) staged() bool { return strings.HasPrefix(filepath.Base(e.dir), stagePrefix) }

// sweep removes entries of modules for which stored says no, and what compilers have left that did not end well.
func (c *cache) sweep(now time.Time, stored func(edgewise.Digest) bool) error {
	list, err := c.entries()
	if c.dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		digest, _, _ := strings.Cut(filepath.Base(e.dir), "-")
		if now.Sub(e.at) > unused && (e.staged() || !stored(edgewise.Digest(digest))) {
			err = errors.Join(err, os.RemoveAll(e.dir))
		}
	}
	return err
}

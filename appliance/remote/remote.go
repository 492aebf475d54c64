// Package remote makes trees of models in object stores and registries sources of package repository: it lists them, and
// fetches the files that are needed, by the program edgewise-fetch, which it starts when there is something to do.
//
// In the folder of a tree are what was fetched (package api/fetch describes it) and, in models, the last good state of
// each model, a JSON list of its files. It serves while the place is away, also after a restart.
package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// Tree is a tree of models at a URL. Its methods are safe for concurrent use.
type Tree struct {
	url         string
	folder      string
	program     string   // edgewise-fetch
	modelFiles  []string // as in repository.Repository
	model       string   // as Repository.Model
	environment []string // for the program
	credentials string   // the file with credentials; empty: the environment's
	registry    config.Registry
	reads       []string // what the program may read beside its folder
	memory      uint64   // bytes of the program's own
	reserve     int64    // bytes of the disk that stay free
	maxBytes    int64    // of the files of one version
	logger      *slog.Logger

	seen atomic.Pointer[snapshot]
	busy chan struct{} // has one element while a program runs
	said atomic.Bool   // that the kernel lacks protection

	mu       sync.Mutex // guards what follows
	received int64      // bytes
}

// Open makes the source of a tree, as it was when it served last. modelFiles are as in repository.Repository. It starts
// nothing.
func Open(c config.Config, url string, modelFiles []string, logger *slog.Logger) *Tree {
	sum := sha256.Sum256([]byte(url))
	t := &Tree{
		url: url, folder: filepath.Join(c.DataDir, "remote", hex.EncodeToString(sum[:8])), program: fetch.Program(),
		modelFiles: modelFiles, model: c.Repository.Name, environment: c.Environment, credentials: c.Repository.CredentialsFile,
		registry: c.Registry, memory: maxMemory, reserve: int64(c.Store.ReserveBytes), maxBytes: int64(c.Upload.MaxBytes),
		logger: logger, busy: make(chan struct{}, 1),
	}
	t.seen.Store(t.kept())
	return t
}

// Tree returns the repository as it was seen last.
func (t *Tree) Tree() repository.Repository { return t.repository(t.seen.Load()) }

// Kept returns the repository as it was when its models became ready.
func (t *Tree) Kept() repository.Repository { return t.repository(t.kept()) }

func (t *Tree) repository(s *snapshot) repository.Repository {
	return repository.Repository{FS: s, Place: t.url, Model: t.model, ModelFiles: t.modelFiles}
}

// Refresh lists the tree. With an error it stays as it was seen before. Errors: NotFound, Denied, Unavailable, Invalid,
// Unsupported (the program is not there), with the URL.
func (t *Tree) Refresh(ctx context.Context) error {
	var entries []fetch.Entry
	err := t.run(ctx, &fetch.Request{Command: fetch.List}, func(r *fetch.Reply) error {
		if entries = append(entries, r.Entries...); len(entries) > fetch.MaxEntries {
			return edgewise.Errorf("remote.Refresh", edgewise.TooLarge, "%s: more than %d files", t.url, fetch.MaxEntries)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s, refused := newSnapshot(t, entries)
	if refused > 0 {
		t.logger.Warn("names in a model repository are no paths of files, and are not used", "repository", t.url, "names", refused)
	}
	t.seen.Store(s)
	return t.rootConfigs(ctx, s)
}

// rootConfigs fetches the configuration of a tree that is one model: it has the model's name.
func (t *Tree) rootConfigs(ctx context.Context, s *snapshot) error {
	var names []string
	for _, e := range s.folders["."] {
		if !e.IsDir() && strings.HasPrefix(e.Name(), "config.") {
			names = append(names, e.Name())
		}
	}
	return s.Fetch(ctx, names)
}

// Received is how many bytes the network has brought of files.
func (t *Tree) Received() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.received
}

// Prune removes the last good states of models that used is false of, and every fetched file that neither those that
// stay name nor the present folders of models that are used.
func (t *Tree) Prune(used func(repository.Folder) bool) {
	if _, err := os.Stat(t.folder); err != nil {
		return
	}
	keys := map[string]bool{}
	if err := t.note(t.Tree(), keys, used, func(repository.Folder) {}); err != nil {
		return // what cannot be read may be used
	}
	_ = t.note(t.Kept(), keys, used, func(f repository.Folder) {
		_ = os.Remove(filepath.Join(t.folder, "models", stateFile(f.Dir())))
	})
	digests := map[string]bool{}
	t.sweep("keys", func(key string) bool {
		if keys[key] {
			data, _ := os.ReadFile(filepath.Join(t.folder, "keys", key))
			digests[string(data)] = true
		}
		return keys[key]
	})
	t.sweep("parts", func(key string) bool { return keys[key] })
	t.sweep("files", func(digest string) bool { return digests[digest] })
}

// note adds the keys of files that are used, and gives the folders that are not to unused.
func (t *Tree) note(
	r repository.Repository, keys map[string]bool, used func(repository.Folder) bool, unused func(repository.Folder),
) error {
	s, _ := r.FS.(*snapshot)
	folders, _, err := r.Folders()
	if err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, f := range folders {
		if dirs[f.Dir()] = used(f); !dirs[f.Dir()] {
			unused(f)
		}
	}
	for name, e := range s.entries {
		dir, _, _ := strings.Cut(name, "/")
		if dirs["."] || dirs[dir] {
			keys[e.Key()] = true
		}
	}
	return nil
}

// sweep removes the files of a folder that stay is false of.
func (t *Tree) sweep(folder string, stay func(name string) bool) {
	entries, _ := os.ReadDir(filepath.Join(t.folder, folder))
	for _, e := range entries {
		if !stay(e.Name()) {
			_ = os.Remove(filepath.Join(t.folder, folder, e.Name()))
		}
	}
}

// kept reads the last good states of models.
func (t *Tree) kept() *snapshot {
	files, _ := filepath.Glob(filepath.Join(t.folder, "models", "*.json"))
	var all []fetch.Entry
	for _, file := range files {
		data, err := os.ReadFile(file)
		var entries []fetch.Entry
		if err == nil {
			err = json.Unmarshal(data, &entries)
		}
		if err != nil {
			t.logger.Warn("the last good state of a model cannot be read", "repository", t.url, "error", err)
			continue
		}
		all = append(all, entries...)
	}
	s, _ := newSnapshot(t, all)
	if len(all) == 0 {
		s.missing = fs.ErrNotExist
	}
	return s
}

// keep stores the last good state of a model once its files are on the disk; dir is its folder, "." of a tree that is one model.
func (t *Tree) keep(dir string, entries []fetch.Entry) error {
	if err := t.sync(entries); err != nil {
		return err
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	file := filepath.Join(t.folder, "models", stateFile(dir))
	if old, err := os.ReadFile(file); err == nil && string(old) == string(data) {
		return nil
	}
	err = os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = writeFile(file, data)
	}
	return err
}

// sync waits until files that were fetched are on the disk.
func (t *Tree) sync(entries []fetch.Entry) error {
	for _, e := range entries {
		digest := t.digest(e)
		if digest == "" { // a folder, or a file that the model does not need
			continue
		}
		for _, path := range []string{t.file(digest), filepath.Join(t.folder, "keys", e.Key())} {
			if err := syncFile(path); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"files", "keys"} {
		if err := syncFile(filepath.Join(t.folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncFile waits until a file or the names in a folder are on the disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func stateFile(dir string) string { return hex.EncodeToString([]byte(dir)) + ".json" }

// writeFile replaces a file as a whole.
func writeFile(file string, data []byte) error {
	f, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	return err
}

package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/store"
)

// Files fetches small files below a URL: those whose names are wanted, at most so many of at most so many bytes, by their names. What
// is below the URL of a registry has the name of its repository and the number of its version before it. Errors: those of Pull.
func (r Registries) Files(ctx context.Context, url string, want func(name string) bool, most int, bytes int64) (
	found map[string][]byte, err error,
) {
	t := r.openSmall(url)
	defer func() { err = errors.Join(err, os.RemoveAll(t.folder)) }()
	var entries []fetch.Entry
	err = t.run(ctx, &fetch.Request{Command: fetch.List}, func(reply *fetch.Reply) error {
		for _, e := range reply.Entries {
			if !want(e.Name) {
				continue
			}
			if entries = append(entries, e); len(entries) > most || e.Size > bytes {
				return edgewise.Errorf("remote.Files", edgewise.TooLarge, "%s has more than %d files, or one of more than %d bytes", url, most,
					bytes)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found = map[string][]byte{}
	var failed error
	err = t.run(ctx, &fetch.Request{Command: fetch.Get, Folder: t.folder, Files: entries, Reserve: t.reserve},
		func(reply *fetch.Reply) error {
			if reply.Failure != nil && failed == nil {
				failed = t.failure(reply.Failure, nil)
			}
			if f := reply.File; f != nil {
				text, err := store.ReadBounded(filepath.Join(t.folder, "files", filepath.Base(f.SHA256)), bytes)
				found[f.Name] = text
				return err
			}
			return nil
		})
	if failed != nil {
		err = failed
	}
	return found, err
}

// Put sends a small file to a URL, in place of what has its name there. In a registry it becomes the artifact of the URL's tag.
// Errors: those of Pull.
func (r Registries) Put(ctx context.Context, url, name string, data []byte) (err error) {
	t := r.openSmall(url)
	defer func() { err = errors.Join(err, os.RemoveAll(t.folder)) }()
	if err = os.MkdirAll(t.folder, 0o700); err == nil {
		err = os.WriteFile(filepath.Join(t.folder, name), data, 0o600)
	}
	if err != nil {
		return edgewise.Errorf("remote.Put", edgewise.Exhausted, "%s: what is to be sent cannot be written: %w", url, err)
	}
	sum := sha256.Sum256(data)
	return t.run(ctx, &fetch.Request{
		Command: fetch.Put, Folder: t.folder, Form: fetch.FormFleet, Config: []byte("{}"),
		Files: []fetch.Entry{{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}},
	}, func(*fetch.Reply) error { return nil })
}

// openSmall opens what stands at a URL for small files, whose own signatures count and not those of registries.
func (r Registries) openSmall(url string) *Tree {
	t := openPull(r.Config, url, r.logger())
	t.folder += "-small"
	t.registry = config.Registry{}
	return t
}

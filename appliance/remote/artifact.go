package remote

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// forgotten is how old the parts of a pull become that nobody has gone on with.
const forgotten = 24 * time.Hour

// pullsFolder holds what is being fetched for imports, in the data folder.
const pullsFolder = "pulls"

// scheme begins the URLs of registries.
const scheme = "oci://"

// isReference tells whether a URL is that of a registry.
func isReference(url string) bool { return strings.HasPrefix(url, scheme) }

// limits bound what is pulled.
type limits struct {
	bytes int64
	files int
}

// Pull makes a folder with the files of the version that a reference of a registry names, and returns the reference by its
// digest. What an earlier attempt has fetched is not fetched again. progress is told bytes. Errors: Invalid, NotFound, Denied
// (credentials, signatures), Unavailable, Corrupt, TooLarge, Unsupported, Exhausted.
func Pull(ctx context.Context, c config.Config, reference, folder string, progress func(done, total int64), logger *slog.Logger) (
	digested string, err error,
) {
	if !isReference(reference) {
		return "", edgewise.Errorf("remote.Pull", edgewise.Invalid, "%.300q is no reference: want oci://registry/name:tag", reference)
	}
	t := openPull(c, reference, logger)
	sweep(filepath.Dir(t.folder))
	return t.pull(ctx, limits{int64(c.Upload.MaxBytes), c.Upload.MaxFiles}, folder, progress)
}

// openPull opens what stands at a reference, with a folder of its own.
func openPull(c config.Config, reference string, logger *slog.Logger) *Tree {
	t := Open(c, reference, nil, logger)
	t.folder = filepath.Join(c.DataDir, pullsFolder, filepath.Base(t.folder))
	return t
}

func (t *Tree) pull(ctx context.Context, limits limits, folder string, progress func(done, total int64)) (string, error) {
	artifact, entries, err := t.artifact(ctx, limits)
	if err == nil {
		err = t.getAll(ctx, entries, progress)
	}
	if err == nil {
		err = t.lay(artifact, entries, folder, limits)
	}
	if err == nil || !mayGoOn(err) {
		err = errors.Join(err, os.RemoveAll(t.folder))
	}
	if err != nil {
		return "", err
	}
	return pinned(t.url, artifact.Digest), nil
}

// pinned is a reference with a digest in place of what it has behind its name.
func pinned(reference, digest string) string {
	name, _, _ := strings.Cut(reference, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name = name[:colon]
	}
	return name + "@" + digest
}

// mayGoOn tells whether a later attempt goes on from where one has failed.
func mayGoOn(err error) bool {
	kind := edgewise.KindOf(err)
	return kind == edgewise.Unavailable || kind == edgewise.Canceled || kind == edgewise.Deadline
}

// sweep removes what pulls have left that nobody has gone on with.
func sweep(folder string) {
	entries, _ := os.ReadDir(folder) // a folder that is not there has none
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > forgotten {
			_ = os.RemoveAll(filepath.Join(folder, e.Name())) // the next sweep tries it again
		}
	}
}

// artifact asks for what the URL names, and checks that it is within limits.
func (t *Tree) artifact(ctx context.Context, limits limits) (found fetch.Artifact, entries []fetch.Entry, err error) {
	err = t.run(ctx, &fetch.Request{Command: fetch.List}, func(r *fetch.Reply) error {
		entries = append(entries, r.Entries...)
		if r.Artifact != nil {
			found = *r.Artifact
		}
		return nil
	})
	if err != nil {
		return found, nil, err
	}
	total := int64(0)
	for _, e := range entries {
		if e.Size < 0 || e.Size > limits.bytes-total {
			return found, nil, edgewise.Errorf("remote.Pull", edgewise.TooLarge, "%s has more than the %d bytes that are allowed (upload.max_bytes)",
				t.url, limits.bytes).WithLimit(limits.bytes)
		}
		total += e.Size
	}
	if len(entries) == 0 || len(entries) > limits.files {
		return found, nil, edgewise.Errorf("remote.Pull", edgewise.TooLarge, "%s has %d files: want 1 to %d (upload.max_files)", t.url,
			len(entries), limits.files).WithLimit(int64(limits.files))
	}
	return found, entries, nil
}

// getAll fetches files.
func (t *Tree) getAll(ctx context.Context, entries []fetch.Entry, progress func(done, total int64)) error {
	done, total := int64(0), int64(0)
	for _, e := range entries {
		total += e.Size
	}
	progress(0, total)
	for len(entries) > 0 {
		page := entries[:min(len(entries), fetch.MaxPage)]
		entries = entries[len(page):]
		var failed error
		r := &fetch.Request{Command: fetch.Get, Folder: t.folder, Files: page, Reserve: t.reserve}
		err := t.run(ctx, r, func(reply *fetch.Reply) error {
			switch {
			case reply.Failure != nil && failed == nil:
				failed = t.failure(reply.Failure, nil)
			case reply.Progress != nil:
				progress(min(done+reply.Progress.Bytes+reply.Progress.Had, total), total)
			case reply.File != nil && reply.File.Received == 0:
				done += reply.File.Size // it was there already
			}
			return nil
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
		for _, e := range page {
			done += e.Size
		}
		progress(min(done, total), total)
	}
	return nil
}

// lay links what was fetched to where it stands in the version's folder, or unpacks it there.
func (t *Tree) lay(a fetch.Artifact, entries []fetch.Entry, folder string, limits limits) error {
	const op = "remote.lay"
	err := os.Mkdir(folder, 0o750)
	for _, e := range entries {
		if err != nil {
			return edgewise.Errorf(op, edgewise.Exhausted, "%s: its files cannot be laid into a folder", t.url)
		}
		_, name, _ := strings.Cut(e.Name, "/") // behind the model
		name = strings.TrimPrefix(name, "1/")  // and its only version
		from := filepath.Join(t.folder, "files", e.SHA256)
		if a.Form == fetch.FormModelcar {
			if err := unpackLayer(from, name, folder, &limits); err != nil {
				return err
			}
			continue
		}
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err = edgewise.CheckPath(name); err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.Link(from, to))
		}
	}
	if err != nil {
		return edgewise.Errorf(op, edgewise.Exhausted, "%s: its files cannot be laid into a folder", t.url)
	}
	return nil
}

// Push publishes the files of a version, which lie in dir, under a reference with a tag, and returns the digest. Errors: those of
// Pull.
func Push(ctx context.Context, c config.Config, reference, dir string, v *edgewise.Version, annotations map[string]string,
	logger *slog.Logger,
) (digest string, err error) {
	config, err := json.Marshal(v.Model)
	if err != nil {
		return "", edgewise.Errorf("remote.Push", edgewise.Internal, "%w", err)
	}
	r := &fetch.Request{Command: fetch.Put, Folder: dir, Config: config, Annotations: annotations}
	for _, f := range v.Files {
		r.Files = append(r.Files, fetch.Entry{Name: f.Path, Size: f.Size, SHA256: string(f.Digest)})
	}
	t := openPull(c, reference, logger)
	t.reads = []string{dir}
	defer func() { err = errors.Join(err, os.RemoveAll(t.folder)) }()
	err = t.run(ctx, r, func(reply *fetch.Reply) error {
		if reply.Digest != "" {
			digest = reply.Digest
		}
		return nil
	})
	return digest, err
}

// Package download fetches files of a place into a folder: whole or not at all, each content once, continued where it
// was interrupted.
package download

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/place"
)

// Bounds.
const (
	defaultParallel = 4
	maxParallel     = 16
	attempts        = 5 // of a file that brought nothing since the one before
	firstBackOff    = 200 * time.Millisecond
	progressEvery   = 100 * time.Millisecond
)

// job is one request of get.
type job struct {
	place    place.Place
	to       fetch.Replies
	folder   string
	received atomic.Int64 // bytes
	had      atomic.Int64 // bytes of parts that an earlier request has left
}

// Get answers a request of get. It returns when every file is there or has failed.
func Get(ctx context.Context, p place.Place, r *fetch.Request, to fetch.Replies) error {
	j := &job{place: p, to: to, folder: r.Folder}
	if err := check(r); err != nil {
		return err
	}
	for _, name := range []string{"files", "keys", "parts"} {
		if err := os.MkdirAll(filepath.Join(r.Folder, name), 0o700); err != nil {
			return onDisk(err)
		}
	}
	files, err := j.missing(ctx, r.Files)
	if err == nil {
		err = enough(r.Folder, files, r.Reserve)
	}
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return nil
	}
	defer j.report()()
	return j.each(ctx, files, r.Parallel)
}

// report tells how much was received whenever that has changed, also when nothing more comes, until it is ended.
func (j *job) report() (end func()) {
	ended, quiet := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(quiet)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		said := fetch.Progress{}
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			if now := (fetch.Progress{Bytes: j.received.Load(), Had: j.had.Load()}); now != said {
				said = now
				_ = j.to.Send(fetch.Reply{Progress: &now}) // the end of the file finds out that nobody reads
			}
		}
	}()
	return func() { close(ended); <-quiet }
}

func check(r *fetch.Request) error {
	if !filepath.IsAbs(r.Folder) || len(r.Files) > fetch.MaxPage || r.Parallel < 0 || r.Parallel > maxParallel {
		return fetch.Failf(fetch.Invalid, "get: want an absolute folder, at most %d files, at most %d at the same time",
			fetch.MaxPage, maxParallel)
	}
	for _, e := range r.Files {
		if e.Size < 0 || e.Name == "" || len(e.Name) > fetch.MaxName {
			return fetch.Failf(fetch.Invalid, "get: a file %.100q of %d bytes", e.Name, e.Size)
		}
	}
	return nil
}

// group are entries with the same key: one content.
type group struct {
	key     string
	entries []fetch.Entry
}

// missing tells of the files that are there already, and returns the others.
func (j *job) missing(ctx context.Context, entries []fetch.Entry) ([]*group, error) {
	var groups []*group
	byKey := map[string]*group{}
	for _, e := range entries {
		key := e.Key()
		if g := byKey[key]; g != nil {
			g.entries = append(g.entries, e)
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if digest := j.whole(e); digest != "" {
			if err := j.tell(&group{key, []fetch.Entry{e}}, digest, 0); err != nil {
				return nil, err
			}
			continue
		}
		g := &group{key, []fetch.Entry{e}}
		byKey[key] = g
		groups = append(groups, g)
	}
	return groups, nil
}

// whole returns the digest of a file that is there as it was received; "" when it is not. Nobody has waited until it was on the
// disk, so that a cut of the power may have left something else, which is removed.
func (j *job) whole(e fetch.Entry) string {
	digest := Digest(j.folder, e)
	if digest == "" {
		return ""
	}
	path := filepath.Join(j.folder, "files", digest)
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil || hexOf(sum) != digest {
		_ = os.Remove(path)
		return ""
	}
	return digest
}

// enough refuses files that the disk has no room for.
func enough(folder string, files []*group, reserve int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return onDisk(err)
	}
	free, needed := int64(disk.Bavail)*disk.Bsize, int64(0)
	for _, g := range files {
		needed += g.entries[0].Size
		if info, err := os.Stat(filepath.Join(folder, "parts", g.key)); err == nil {
			needed -= min(info.Size(), g.entries[0].Size)
		}
	}
	if needed > 0 && free-needed < reserve {
		return fetch.Failf(fetch.Exhausted, "the disk is too full: the files need %d bytes, %d are free, %d of them are reserved",
			needed, free, reserve)
	}
	return nil
}

// each fetches files, some of them at the same time.
func (j *job) each(ctx context.Context, files []*group, parallel int) error {
	if parallel == 0 {
		parallel = defaultParallel
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan *group)
	var workers sync.WaitGroup
	for range min(parallel, len(files)) {
		workers.Go(func() {
			for g := range queue {
				if err := j.one(ctx, g); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, g := range files {
		select {
		case queue <- g:
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// one fetches a file and tells of it. It returns an error that is not about this file alone.
func (j *job) one(ctx context.Context, g *group) error {
	digest, received, err := j.fetch(ctx, g)
	if err == nil {
		return j.tell(g, digest, received)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := failure(err)
	for _, e := range g.entries {
		named := *failed
		named.Object = e.Name
		if err := j.to.Send(fetch.Reply{Failure: &named}); err != nil {
			return err
		}
	}
	switch failed.Kind {
	case fetch.Exhausted, fetch.Denied, fetch.Unavailable: // the next file would fail as well
		return failed
	}
	return nil
}

// tell says that the files of a group are there.
func (j *job) tell(g *group, digest string, received int64) error {
	for i, e := range g.entries {
		f := &fetch.Fetched{Name: e.Name, Key: g.key, SHA256: digest, Size: e.Size}
		if i == 0 {
			f.Received = received
		}
		if err := j.to.Send(fetch.Reply{File: f}); err != nil {
			return err
		}
	}
	return nil
}

func failure(err error) *fetch.Failure {
	if f, ok := errors.AsType[*fetch.Failure](err); ok {
		return f
	}
	return fetch.Failf(fetch.Internal, "%v", err)
}

// onDisk is the failure of an operation on a file of this machine, whose path it does not name.
func onDisk(err error) error {
	kind := fetch.Internal
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			kind = fetch.Exhausted
		}
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return fetch.Failf(kind, "writing it to the disk: %v", err)
}

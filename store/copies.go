package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/edgewise-ai/edgewise/store/disk"
)

// copies makes snapshots of a bbolt file in a folder while it changes, and keeps the latest ones.
type copies struct {
	disk    disk.Disk
	log     *slog.Logger
	db      *bbolt.DB
	file    string // that is copied
	folder  string
	prefix  string        // of a snapshot's name, before its time
	every   time.Duration // negative: never
	keep    int
	changed atomic.Bool // since the last snapshot

	stop    context.CancelFunc
	stopped chan struct{} // closed when the loop has ended
}

// start begins to make snapshots. The caller ends it with end.
func (c *copies) start() {
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.stopped = stop, make(chan struct{})
	go c.loop(ctx)
}

// end waits for the snapshot in progress and makes no more.
func (c *copies) end() {
	c.stop()
	<-c.stopped
}

// loop makes snapshots until ctx is done.
func (c *copies) loop(ctx context.Context) {
	defer close(c.stopped)
	if c.every < 0 {
		return
	}
	timer := time.NewTimer(c.first(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(c.every)
		if !c.changed.Load() {
			continue
		}
		if err := c.copy(); err != nil {
			c.log.Error("cannot copy a database", "file", filepath.Base(c.file), "error", err)
		}
	}
}

// first returns how long to wait for the first snapshot, so that a box which restarts often makes them too. It notes
// whether the file changed since the last one.
func (c *copies) first(now time.Time) time.Duration {
	last := time.Time{}
	if times, err := listSnapshots(c.folder, c.prefix); err == nil && len(times) > 0 {
		last = times[len(times)-1]
	}
	if info, err := os.Stat(c.file); err == nil && info.ModTime().After(last) {
		c.changed.Store(true)
	}
	wait := last.Add(c.every).Sub(now)
	return min(max(wait, 0), c.every)
}

// copy makes a consistent snapshot and removes the oldest ones over those to keep. Changes go on meanwhile.
func (c *copies) copy() error {
	c.changed.Store(false)
	err := c.write(snapshotPath(c.folder, c.prefix, time.Now()))
	if err == nil {
		err = c.prune()
	}
	if err != nil {
		c.changed.Store(true)
	}
	return err
}

func (c *copies) write(path string) error {
	partial := path + partialSuffix
	f, err := c.disk.Create(partial)
	if err != nil {
		return err
	}
	err = viewFile(c.db, func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = c.disk.Rename(partial, path)
	}
	if err != nil {
		if gone := c.disk.Remove(partial); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			return errors.Join(err, gone)
		}
		return err
	}
	return c.disk.SyncDir(c.folder)
}

func (c *copies) prune() error {
	kept, err := listSnapshots(c.folder, c.prefix)
	if err != nil {
		return err
	}
	for len(kept) > c.keep {
		if err := c.disk.Remove(snapshotPath(c.folder, c.prefix, kept[0])); err != nil {
			return err
		}
		kept = kept[1:]
	}
	return nil
}

func snapshotPath(folder, prefix string, at time.Time) string {
	return filepath.Join(folder, prefix+at.UTC().Format(stampFormat)+snapshotSuffix)
}

// parseSnapshot reads when a snapshot was made out of its name.
func parseSnapshot(prefix, name string) (at time.Time, ok bool) {
	name, ok = strings.CutPrefix(name, prefix)
	if !ok {
		return time.Time{}, false
	}
	name, ok = strings.CutSuffix(name, snapshotSuffix)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(stampFormat, name)
	return at, err == nil
}

// listSnapshots returns when the snapshots in a folder were made, the oldest first. A folder that is not there has
// none.
func listSnapshots(folder, prefix string) ([]time.Time, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var times []time.Time
	for _, e := range entries {
		at, ok := parseSnapshot(prefix, e.Name())
		if ok && filepath.Base(snapshotPath(folder, prefix, at)) == e.Name() {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, nil
}

package database

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

// Copies makes snapshots of a bbolt file in a folder while it changes, and keeps the latest ones.
type Copies struct {
	Disk    disk.Disk
	Log     *slog.Logger
	DB      *bbolt.DB
	File    string // that is copied
	Folder  string
	Prefix  string        // of a snapshot's name, before its time
	Every   time.Duration // negative: never
	Keep    int
	changed atomic.Bool // since the last snapshot

	stop    context.CancelFunc
	stopped chan struct{} // closed when the loop has ended
}

// Start begins to make snapshots. The caller ends it with End.
func (c *Copies) Start() {
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.stopped = stop, make(chan struct{})
	go c.loop(ctx)
}

// End waits for the snapshot in progress and makes no more.
func (c *Copies) End() {
	c.stop()
	<-c.stopped
}

// Note says that the file has changed.
func (c *Copies) Note() { c.changed.Store(true) }

// loop makes snapshots until ctx is done.
func (c *Copies) loop(ctx context.Context) {
	defer close(c.stopped)
	if c.Every < 0 {
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
		timer.Reset(c.Every)
		if !c.changed.Load() {
			continue
		}
		if err := c.Copy(); err != nil {
			c.Log.Error("cannot copy a database", "file", filepath.Base(c.File), "error", err)
		}
	}
}

// first returns how long to wait for the first snapshot, so that a box which restarts often makes them too. It notes
// whether the file changed since the last one.
func (c *Copies) first(now time.Time) time.Duration {
	last := time.Time{}
	if times, err := ListSnapshots(c.Folder, c.Prefix); err == nil && len(times) > 0 {
		last = times[len(times)-1]
	}
	if info, err := os.Stat(c.File); err == nil && info.ModTime().After(last) {
		c.Note()
	}
	wait := last.Add(c.Every).Sub(now)
	return min(max(wait, 0), c.Every)
}

// Copy makes a consistent snapshot and removes the oldest ones over those to keep. Changes go on meanwhile.
func (c *Copies) Copy() error {
	c.changed.Store(false)
	err := c.write(SnapshotPath(c.Folder, c.Prefix, time.Now()))
	if err == nil {
		err = c.prune()
	}
	if err != nil {
		c.Note()
	}
	return err
}

func (c *Copies) write(path string) error {
	partial := path + PartialSuffix
	f, err := c.Disk.Create(partial)
	if err != nil {
		return err
	}
	err = View(c.DB, func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = c.Disk.Rename(partial, path)
	}
	if err != nil {
		if gone := c.Disk.Remove(partial); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			return errors.Join(err, gone)
		}
		return err
	}
	return c.Disk.SyncDir(c.Folder)
}

func (c *Copies) prune() error {
	kept, err := ListSnapshots(c.Folder, c.Prefix)
	if err != nil {
		return err
	}
	for len(kept) > c.Keep {
		if err := c.Disk.Remove(SnapshotPath(c.Folder, c.Prefix, kept[0])); err != nil {
			return err
		}
		kept = kept[1:]
	}
	return nil
}

const snapshotSuffix = ".db"

// SnapshotPath returns where the snapshot of a time stands.
func SnapshotPath(folder, prefix string, at time.Time) string {
	return filepath.Join(folder, prefix+at.UTC().Format(StampFormat)+snapshotSuffix)
}

// ParseSnapshot reads when a snapshot was made out of its name.
func ParseSnapshot(prefix, name string) (at time.Time, ok bool) {
	name, ok = strings.CutPrefix(name, prefix)
	if !ok {
		return time.Time{}, false
	}
	name, ok = strings.CutSuffix(name, snapshotSuffix)
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(StampFormat, name)
	return at, err == nil
}

// ListSnapshots returns when the snapshots in a folder were made, the oldest first. A folder that is not there has
// none.
func ListSnapshots(folder, prefix string) ([]time.Time, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var times []time.Time
	for _, e := range entries {
		at, ok := ParseSnapshot(prefix, e.Name())
		if ok && filepath.Base(SnapshotPath(folder, prefix, at)) == e.Name() {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, nil
}

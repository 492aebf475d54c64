package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"go.etcd.io/bbolt"
)

// Snapshot makes a consistent copy of the catalog and removes the oldest ones over Options.Snapshots. Changes go on
// meanwhile. Kinds of error: Exhausted when the disk is full, Unavailable after Close.
func (s *Store) Snapshot() error {
	const op = "store.Snapshot"
	s.changed.Store(false)
	err := s.writeSnapshot(s.root.snapshot(time.Now()))
	if err == nil {
		err = s.pruneSnapshots()
	}
	if err != nil {
		s.changed.Store(true)
		return fail(op, edgewise.ModelID{}, "copying the catalog", err)
	}
	return nil
}

func (s *Store) writeSnapshot(path string) error {
	partial := path + partialSuffix
	f, err := s.disk.Create(partial)
	if err != nil {
		return err
	}
	err = guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(f)
			return err
		})
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.disk.Rename(partial, path)
	}
	if err != nil {
		return errors.Join(err, s.blobs.clear(partial))
	}
	return s.disk.SyncDir(s.root.snapshots())
}

func (s *Store) pruneSnapshots() error {
	kept, err := s.root.listSnapshots()
	if err != nil {
		return err
	}
	for len(kept) > s.options.Snapshots {
		if err := s.disk.Remove(s.root.snapshot(kept[0])); err != nil {
			return err
		}
		kept = kept[1:]
	}
	return nil
}

// listSnapshots returns when the snapshots were made, the oldest first.
func (l layout) listSnapshots() ([]time.Time, error) {
	entries, err := os.ReadDir(l.snapshots())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var times []time.Time
	for _, e := range entries {
		at, ok := parseSnapshot(e.Name())
		if ok && filepath.Base(l.snapshot(at)) == e.Name() {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, nil
}

// snapshotLoop makes snapshots until ctx is done.
func (s *Store) snapshotLoop(ctx context.Context) {
	defer close(s.stopped)
	if s.options.SnapshotEvery < 0 {
		return
	}
	timer := time.NewTimer(s.firstSnapshot(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(s.options.SnapshotEvery)
		if !s.changed.Load() {
			continue
		}
		if err := s.Snapshot(); err != nil {
			s.log.Error("cannot copy the catalog", "error", err)
		}
	}
}

// firstSnapshot returns how long to wait for the first snapshot, so that a box which restarts often makes them too. It
// notes whether the catalog changed since the last one.
func (s *Store) firstSnapshot(now time.Time) time.Duration {
	last := time.Time{}
	if times, err := s.root.listSnapshots(); err == nil && len(times) > 0 {
		last = times[len(times)-1]
	}
	if info, err := os.Stat(s.root.catalog()); err == nil && info.ModTime().After(last) {
		s.changed.Store(true)
	}
	wait := last.Add(s.options.SnapshotEvery).Sub(now)
	return min(max(wait, 0), s.options.SnapshotEvery)
}

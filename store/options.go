package store

import (
	"log/slog"
	"time"
)

// Defaults of the fields of Options that are zero.
const (
	DefaultMaxVersionBytes = 64 << 30 // bytes of all files of one version
	DefaultMaxFiles        = 4096     // files of one version
	DefaultMaxUploads      = 8        // uploads in flight
	DefaultSnapshotEvery   = time.Hour
	DefaultSnapshots       = 24 // snapshots kept
)

// Bounds that are not configurable.
const (
	// MaxManifestBytes bounds the declaration and the list of files of one version, as JSON.
	MaxManifestBytes = 16 << 20
	// MaxLabels bounds the labels of one model.
	MaxLabels = 64
	// LockTimeout is how long Open and Repair wait for another process to leave the data folder.
	LockTimeout = time.Second
)

// Options are the bounds of a store. A zero field takes its default, except Reserve.
type Options struct {
	// Reserve is the number of bytes of the disk that uploads leave free. 0 reserves nothing.
	Reserve int64
	// MaxVersionBytes bounds the bytes of all files of one version.
	MaxVersionBytes int64
	// MaxFiles bounds the files of one version.
	MaxFiles int
	// MaxUploads bounds the uploads in flight. Each holds 3 MiB of memory while it is written to.
	MaxUploads int
	// SnapshotEvery is how often the catalog is copied when it has changed. Negative: never.
	SnapshotEvery time.Duration
	// Snapshots is how many copies are kept.
	Snapshots int
	// Logger receives what was swept, what is foreign and what is damaged. nil discards.
	Logger *slog.Logger

	disk disk // nil: the real one. Tests put a failing one here
}

func (o Options) withDefaults() Options {
	if o.MaxVersionBytes == 0 {
		o.MaxVersionBytes = DefaultMaxVersionBytes
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = DefaultMaxFiles
	}
	if o.MaxUploads == 0 {
		o.MaxUploads = DefaultMaxUploads
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = DefaultSnapshotEvery
	}
	if o.Snapshots == 0 {
		o.Snapshots = DefaultSnapshots
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	return o
}

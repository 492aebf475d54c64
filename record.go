package edgewise

import (
	"io"
	"time"
)

// Record is everything that is stored about one model. Versions and what they hold are shared and never modified.
type Record struct {
	Name     string
	Versions []*Version // ascending
	Labels   []Label    // by Name
	Wanted   bool       // whether the box serves it; survives a restart

	// Leaving are versions that are not offered any more: those that are loaded answer until the live version is ready.
	// Only records of model repositories have such.
	Leaving []int64
}

// Label is a movable name for a version, such as "live". It moves in one step: a reader sees the old or the new
// version.
type Label struct {
	Name    string    `json:"name"`
	Version int64     `json:"version"`
	Changed time.Time `json:"changed"`           // UTC
	History []int64   `json:"history,omitempty"` // where it pointed before, latest last; at most store.MaxLabelHistory
}

// Version returns the version with that number, nil when there is none.
func (r *Record) Version(number int64) *Version {
	for _, v := range r.Versions {
		if v.ID.Version == number {
			return v
		}
	}
	return nil
}

// Label returns the version a label points to, 0 when there is no such label.
func (r *Record) Label(name string) int64 {
	for _, l := range r.Labels {
		if l.Name == name {
			return l.Version
		}
	}
	return 0
}

// Upload is a version on its way in: its files are pulled one after the other, each read to its end before the next.
type Upload struct {
	Model   string
	Version int64  // 0: the next free number
	Origin  string // for people, see Version.Origin
	Size    int64  // bytes of all files together as declared by the sender; -1: not declared
	// Base is a version whose files complete those that come: all but the ones with the same path, and its configuration
	// where another one comes. 0: none.
	Base int64
	// Next returns the next file: its path, its size (-1: not declared) and its bytes; io.EOF after the last.
	Next func() (path string, size int64, body io.Reader, err error)
}

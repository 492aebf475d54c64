package edgewise

import "time"

// Version is one immutable upload of a model.
type Version struct {
	ID      ModelID   `json:"id"`
	Model   *Model    `json:"model"`   // as declared and completed; never changed
	Files   []File    `json:"files"`   // sorted by Path
	Digest  Digest    `json:"digest"`  // over Model and Files: equal digests mean equal behaviour
	Size    int64     `json:"size"`    // bytes of all files together
	Created time.Time `json:"created"` // UTC
	Origin  string    `json:"origin"`  // where it came from, for people: "upload", "import", "version 3"

	// Stored is the number under which the store keeps it, where that is not ID.Version: what stands in a repository's
	// folder can change under one number, and what is stored never does. 0: it is ID.Version.
	Stored int64 `json:"-"`
}

// StoredID names the version as the store does.
func (v *Version) StoredID() ModelID {
	if v.Stored == 0 {
		return v.ID
	}
	return ModelID{Name: v.ID.Name, Version: v.Stored}
}

// Paths lists the paths of the version's files, sorted.
func (v *Version) Paths() []string {
	list := make([]string, len(v.Files))
	for i, f := range v.Files {
		list[i] = f.Path
	}
	return list
}

// File is one file of a version.
type File struct {
	Path   string `json:"path"` // relative, slash-separated, as CheckPath allows
	Size   int64  `json:"size"` // bytes
	Digest Digest `json:"digest"`
}

// Digest is a SHA-256 in lower-case hexadecimal.
type Digest string

// State is the state of a version. A version that is not wanted has no Status.
type State uint8

// The states, as drawn above the state machine in package manager.
const (
	StateUnavailable State = iota
	StateLoading
	StateReady
	StateUnloading
)

// String returns the name that the repository index uses.
func (s State) String() string {
	switch s {
	case StateLoading:
		return "LOADING"
	case StateReady:
		return "READY"
	case StateUnloading:
		return "UNLOADING"
	}
	return "UNAVAILABLE"
}

// Status is the state of one version, with its reason.
type Status struct {
	ID     ModelID
	State  State
	Reason string // why it is not ready; "unloaded" when a client asked for that; empty when ready
	Since  time.Time
	Took   time.Duration // its load; 0 until it was ready
	Fallen bool          // it was ready and stopped working by itself
	Health Health        // while it is ready

	Batching *Batching // of a version that is ready and can say it
}

// LiveLabel is the label that answers requests which name no version.
const LiveLabel = "live"

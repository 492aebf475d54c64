package kserve

import (
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// IndexRequest is the body of POST /v2/repository/index, which may also be empty.
type IndexRequest struct {
	Ready bool `json:"ready"` // only versions that are ready
}

// IndexEntry is one element of the answer to POST /v2/repository/index. A model that was never loaded has a name only.
type IndexEntry struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// NewIndexEntry describes a status. One with a version of 0 is a model that was never loaded.
func NewIndexEntry(s edgewise.Status) IndexEntry {
	if s.ID.Version == 0 {
		return IndexEntry{Name: s.ID.Name}
	}
	return IndexEntry{
		Name: s.ID.Name, Version: strconv.FormatInt(s.ID.Version, 10), State: s.State.String(),
		Reason: s.Reason,
	}
}

// UnloadRequest is the body of POST /v2/repository/models/M/unload, which may also be empty.
type UnloadRequest struct {
	Parameters struct {
		UnloadDependents bool `json:"unload_dependents"`
	} `json:"parameters"`
}

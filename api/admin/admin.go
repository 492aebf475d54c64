// Package admin holds the JSON bodies of the administration routes below /api/v1, for the frontend and its clients.
package admin

import (
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// ErrorBody is the body of every answer that is an error.
type ErrorBody = kserve.ErrorBody

// Model is what is stored about one model, and where its versions stand: GET /api/v1/models/{name}. The answer to
// GET /api/v1/models is an array of them, by name.
type Model struct {
	Name     string           `json:"name"`
	Wanted   bool             `json:"wanted"` // whether it is to be served
	Labels   []edgewise.Label `json:"labels"`
	Versions []Version        `json:"versions"`       // ascending
	Kind     string           `json:"kind,omitempty"` // of its live, else its latest version
	Notes    string           `json:"notes,omitempty"`
}

// Version is one version of a model. It is also the answer to an upload.
type Version struct {
	Name    string          `json:"name"` // of the model
	Version int64           `json:"version"`
	Digest  edgewise.Digest `json:"digest"` // over the declaration and the files
	Size    int64           `json:"size"`   // bytes of all files together
	Created time.Time       `json:"created"`
	Origin  string          `json:"origin"`
	Files   []edgewise.File `json:"files"`            // by path
	State   string          `json:"state,omitempty"`  // as in the repository index; empty: it was never loaded
	Reason  string          `json:"reason,omitempty"` // why it is not ready
	Notes   string          `json:"notes,omitempty"`

	Health   *edgewise.Health   `json:"health,omitempty"`   // of one that is ready
	Batching *edgewise.Batching `json:"batching,omitempty"` // of a version that is ready

	// SignatureChanges are those from the version that was live before; only in the answer to an upload that went live.
	SignatureChanges []Difference `json:"signature_changes,omitempty"`
	// Staged tells that the version goes live by stages; only in the answer to an upload.
	Staged bool `json:"staged,omitempty"`
}

// Pushed is a version that was stored, and what changed in the signature if it was made live.
type Pushed struct {
	*edgewise.Version
	SignatureChanges []Difference // from the version that was live before
	Staged           bool         // it goes live by stages
}

// SetLabel is the body of PUT /api/v1/models/{name}/labels/{label}. The answer is a LabelMove.
type SetLabel struct {
	Version int64 `json:"version"`
}

// Rollback is the body of POST /api/v1/models/{name}/rollback. The answer is a LabelMove.
type Rollback struct {
	Label string `json:"label"`
}

// Rename is the body of POST /api/v1/models/{name}/rename. The answer is a Model.
type Rename struct {
	Name string `json:"name"` // the new one
}

// LabelMove is a label after it has moved.
type LabelMove struct {
	edgewise.Label
	Staged bool `json:"-"` // a rollout has begun instead
	// SignatureChanges are those from the version that the label pointed to before, breaking ones first, at most 32.
	SignatureChanges []Difference `json:"signature_changes,omitempty"`
}

// NewModel describes a model. statuses may hold those of other models too.
func NewModel(r *edgewise.Record, statuses []edgewise.Status, formats edgewise.Formats) Model {
	m := Model{
		Name:     r.Name,
		Wanted:   r.Wanted,
		Labels:   append([]edgewise.Label{}, r.Labels...),
		Versions: make([]Version, 0, len(r.Versions)),
	}
	for _, v := range r.Versions {
		m.Versions = append(m.Versions, NewVersion(v, statuses))
		if live := r.Label(edgewise.LiveLabel); v.Model != nil && (live == 0 || live == v.ID.Version || m.Kind == "") {
			m.Kind = formats.Kind(v.Model)
		}
	}
	return m
}

// NewVersion describes a version. statuses may hold those of other versions too.
func NewVersion(v *edgewise.Version, statuses []edgewise.Status) Version {
	described := Version{
		Name:    v.ID.Name,
		Version: v.ID.Version,
		Digest:  v.Digest,
		Size:    v.Size,
		Created: v.Created,
		Origin:  v.Origin,
		Files:   append([]edgewise.File{}, v.Files...),
	}
	for _, s := range statuses {
		if s.ID == v.ID {
			described.State, described.Reason, described.Batching = s.State.String(), s.Reason, s.Batching
			if s.State == edgewise.StateReady {
				described.Health = &s.Health
			}
		}
	}
	return described
}

// Label returns the version that a label points to, 0 when there is no such label.
func (m *Model) Label(name string) int64 {
	for _, l := range m.Labels {
		if l.Name == name {
			return l.Version
		}
	}
	return 0
}

package admin

import (
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Upload is an upload that is on its way: GET /api/v1/uploads/{id}.
type Upload struct {
	ID       string    `json:"id"`
	Filename string    `json:"filename"`
	Model    string    `json:"model,omitempty"`
	Length   int64     `json:"length"`
	Offset   int64     `json:"offset"` // bytes that have arrived
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires"`
	Owner    string    `json:"owner"`
}

// Job is what goes on after the last byte of an upload: GET /api/v1/jobs/{id}.
type Job struct {
	ID         string          `json:"id"`
	Revision   uint64          `json:"revision"` // grows with each change, from the time it was created
	State      string          `json:"state"`
	Filename   string          `json:"filename"`
	Model      string          `json:"model,omitempty"` // as the sender said
	Size       int64           `json:"size"`
	SHA256     edgewise.Digest `json:"sha256,omitempty"`
	Owner      string          `json:"owner"`
	Created    time.Time       `json:"created"`
	Ended      time.Time       `json:"ended,omitzero"`
	Expires    time.Time       `json:"expires,omitzero"`
	Steps      []JobStep       `json:"steps"`
	Understood *Understood     `json:"understood,omitempty"`
	Resumable  bool            `json:"resumable"`
}

// JobComparison is what differs between the live version of a model and the version that a job would make of it.
type JobComparison struct {
	Version     int64        `json:"version"` // the live one
	Differences []Difference `json:"differences"`
}

// The states of a Job.
const (
	JobRunning  = "running"
	JobStaged   = "staged" // it waits for a person
	JobDone     = "done"
	JobFailed   = "failed"
	JobCanceled = "canceled"
)

// JobStep is one step of a Job.
type JobStep struct {
	Name    string     `json:"name"`
	State   string     `json:"state"`
	Started time.Time  `json:"started,omitzero"`
	Ended   time.Time  `json:"ended,omitzero"`
	Done    int64      `json:"done,omitempty"` // bytes
	Total   int64      `json:"total,omitempty"`
	Error   *ErrorBody `json:"error,omitempty"`
}

// The states of a JobStep.
const (
	StepWaiting = "waiting"
	StepRunning = "running"
	StepDone    = "done"
	StepFailed  = "failed"
	StepSkipped = "skipped"
)

// Understood is the content of an upload, before it is activated.
type Understood struct {
	Models []UnderstoodModel `json:"models"`
	Backup *BackupSummary    `json:"backup,omitempty"`
}

// UnderstoodModel is one version in an upload.
type UnderstoodModel struct {
	Name         string               `json:"name"`
	Version      int64                `json:"version"` // 0: the next free one
	Kind         string               `json:"kind"`
	Size         int64                `json:"size"`
	Files        int                  `json:"files"`
	Exists       bool                 `json:"exists"`
	SameAs       int64                `json:"same_as,omitempty"`
	Inputs       []Tensor             `json:"inputs"`
	Outputs      []Tensor             `json:"outputs"`
	MaxBatchSize int32                `json:"max_batch_size"`
	Config       *edgewise.Model      `json:"config,omitempty"`
	Inspection   *edgewise.Inspection `json:"inspection,omitempty"`
	Fit          *Fit                 `json:"fit,omitempty"`
	Warnings     []string             `json:"warnings"`
	Proposals    []Proposal           `json:"proposals,omitempty"`
	Stored       int64                `json:"stored,omitempty"`
	Staged       bool                 `json:"staged,omitempty"` // it goes live by stages

	// SignatureChanges are those from the live version of the model, breaking ones first, at most 32.
	SignatureChanges []Difference `json:"signature_changes,omitempty"`
}

// Tensor is the signature of a tensor as a client sends or gets it.
type Tensor struct {
	Name     string         `json:"name"`
	Datatype string         `json:"datatype"`
	Shape    edgewise.Shape `json:"shape"`
	Optional bool           `json:"optional,omitempty"`
	Labels   []string       `json:"labels,omitempty"`
}

// NewTensors describes specs.
func NewTensors(specs []edgewise.Spec) []Tensor {
	list := make([]Tensor, 0, len(specs))
	for _, s := range specs {
		list = append(list, Tensor{
			Name: s.Name, Datatype: s.Type.String(), Shape: append(edgewise.Shape{}, s.Shape...),
			Optional: s.Optional,
		})
	}
	return list
}

// Fit tells whether a version fits in memory. All sizes are bytes.
type Fit struct {
	Needs     int64  `json:"needs"`
	Limit     int64  `json:"limit"` // 0: no limit
	Taken     int64  `json:"taken"`
	Available int64  `json:"available"`
	Fits      bool   `json:"fits"`
	Reason    string `json:"reason,omitempty"`
}

// BackupSummary says what a backup holds.
type BackupSummary struct {
	Name     string    `json:"name"` // of the box that made it
	Created  time.Time `json:"created"`
	Version  string    `json:"version"`
	Models   int       `json:"models"`
	Versions int       `json:"versions"`
	Users    int       `json:"users"`
	Keys     int       `json:"keys"`
	Size     int64     `json:"size"`
}

// Activate is the body of POST /api/v1/jobs/{id}/activate.
type Activate struct {
	Model        string `json:"model"`
	Promote      *bool  `json:"promote"` // nil: true
	Notes        string `json:"notes"`
	MaxBatchSize *int32 `json:"max_batch_size"`
	Accounts     bool   `json:"accounts"`
}

// PublishVersion asks the box to publish a version in a registry: POST /api/v1/models/{model}/versions/{version}/publish.
type PublishVersion struct {
	Reference string `json:"reference"` // registry/name:tag, oci:// may stand before it
}

// PublishedVersion is a version in a registry.
type PublishedVersion struct {
	Reference string `json:"reference"` // with the digest in place of the tag
	Digest    string `json:"digest"`    // of the manifest
}

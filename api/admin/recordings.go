package admin

import "time"

// How a tensor is masked before it is recorded.
const (
	MaskDrop = "drop" // it is left out
	MaskHash = "hash" // a keyed hash stands in its place
	MaskBlur = "blur" // a picture of numbers, in 64 areas at most; what is no such picture is left out, and one below 8 x 8
)

// RecordingMask hides an input or an output from the recording.
type RecordingMask struct {
	Tensor string `json:"tensor"`
	How    string `json:"how"`
}

// RecordingSettings say which requests to a model are recorded, and for how long.
type RecordingSettings struct {
	Enabled          bool            `json:"enabled"`
	Share            float64         `json:"share"`             // of the requests, above 0 to 1
	QuotaBytes       int64           `json:"quota_bytes"`       // on the disk; the oldest requests go first
	RetentionSeconds int64           `json:"retention_seconds"` // after which a request is deleted
	Masks            []RecordingMask `json:"masks"`
}

// Recording is what is recorded of a model: GET /api/v1/models/{model}/recording.
type Recording struct {
	Model    string            `json:"model"`
	Settings RecordingSettings `json:"settings"`
	Requests int               `json:"requests"`
	Bytes    int64             `json:"bytes"` // on the disk
	Oldest   *time.Time        `json:"oldest,omitempty"`
	Recorded uint64            `json:"recorded"`          // since the start of the box
	Skipped  uint64            `json:"skipped"`           // wanted and not recorded, since the start of the box
	Dropped  uint64            `json:"dropped"`           // of all models: they came faster than they could be written
	Problem  string            `json:"problem,omitempty"` // why the latest request was not recorded; empty: it was
}

// RecordedRequest is one recorded request.
type RecordedRequest struct {
	Number   uint64    `json:"number"`
	Recorded time.Time `json:"recorded"`
	Version  int64     `json:"version"`  // the one that answered
	Duration float64   `json:"duration"` // microseconds
	Failed   bool      `json:"failed"`
	Bytes    int64     `json:"bytes"` // on the disk
}

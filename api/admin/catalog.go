package admin

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// VersionDetail is a version with its declaration: GET /api/v1/models/{model}/versions/{version}.
type VersionDetail struct {
	Version
	Platform     string          `json:"platform"`
	MaxBatchSize int32           `json:"max_batch_size"`
	Config       *edgewise.Model `json:"config"`
	Inputs       []Tensor        `json:"inputs"`
	Outputs      []Tensor        `json:"outputs"`
	LabelNames   []string        `json:"labels"`
	Fit          *Fit            `json:"fit,omitempty"`
	Process      *VersionProcess `json:"process,omitempty"` // nil: it runs in the box's own, or not at all
	Choice       *Choice         `json:"choice,omitempty"`  // nil: nothing was measured
}

// VersionProcess is the process outside the box's own in which a version runs.
type VersionProcess struct {
	Resident int64  `json:"resident"`          // bytes of its memory
	Group    string `json:"group,omitempty"`   // of versions that share it; empty: it is the version's own
	Note     string `json:"note,omitempty"`    // what its program says of the model
	Resting  bool   `json:"resting,omitempty"` // it has ended to give its memory to others, and the next request starts it
}

// MaxNotesBytes bounds the notes about a model, and about a version.
const MaxNotesBytes = 10_000

// Notes is the body of PATCH requests that change notes.
type Notes struct {
	Notes string `json:"notes"`
}

// Dependant is a version of an ensemble that runs another version.
type Dependant struct {
	Name    string   `json:"name"`
	Version int64    `json:"version"`
	Labels  []string `json:"labels"`
}

// Graph is the structure of a model without its weights.
type Graph struct {
	Kind         string                `json:"kind"`
	Inputs       []edgewise.TensorInfo `json:"inputs"`
	Outputs      []edgewise.TensorInfo `json:"outputs"`
	Nodes        []GraphNode           `json:"nodes"`
	Initializers []edgewise.TensorInfo `json:"initializers,omitempty"`
	Truncated    bool                  `json:"truncated"`
}

// GraphNode is one operation, or one step of an ensemble.
type GraphNode struct {
	Name    string   `json:"name"`
	Op      string   `json:"op"`
	Domain  string   `json:"domain,omitempty"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
	Version int64    `json:"version,omitempty"`
}

// Difference is one thing in which two versions differ.
type Difference struct {
	What     string `json:"what"`
	Change   string `json:"change"` // added, removed or changed
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	Breaking bool   `json:"breaking,omitempty"`
}

// String describes the change in one line.
func (d Difference) String() string {
	text := d.What + " was " + d.Change
	switch {
	case d.From != "" && d.To != "":
		text += fmt.Sprintf(" from %s to %s", d.From, d.To)
	case d.From+d.To != "":
		text += fmt.Sprintf(" (%s)", d.From+d.To)
	}
	if d.Breaking {
		text += ": clients may fail"
	}
	return text
}

// Comparison is what differs between two versions.
type Comparison struct {
	From        Version      `json:"from"`
	To          Version      `json:"to"`
	Same        bool         `json:"same"`
	Differences []Difference `json:"differences"`
}

// ConfigurationEdit is the body of POST /api/v1/models/{model}/versions/{version}/configuration.
type ConfigurationEdit struct {
	Text *string         `json:"text"` // a config.pbtxt; nil: the version's own
	Set  json.RawMessage `json:"set"`  // members of a ModelConfig that replace those of the text; null removes one
}

// VersionConfiguration is a configuration of a version, stored or not.
type VersionConfiguration struct {
	File        string                 `json:"file,omitempty"` // that the version's own stands in; empty: it has none
	Text        string                 `json:"text"`           // in the form of config.pbtxt
	Declared    *edgewise.Model        `json:"declared,omitempty"`
	Config      *edgewise.Model        `json:"config,omitempty"` // completed; nil: see Problems
	Problems    []ConfigurationProblem `json:"problems"`
	Compared    int64                  `json:"compared"` // the version that Differences begin at: live, or this one
	Differences []Difference           `json:"differences"`
}

// ConfigurationProblem is something that is wrong with a configuration.
type ConfigurationProblem struct {
	Line int    `json:"line,omitempty"` // of the text, from 1; 0: none in particular
	Text string `json:"text"`
}

// Ensemble is an ensemble and the statistics of its steps.
type Ensemble struct {
	Name    string          `json:"name"`
	Version int64           `json:"version"`
	Live    bool            `json:"live"`
	Config  *edgewise.Model `json:"config"`
	Steps   []EnsembleStep  `json:"steps"`
}

// EnsembleStep is the statistics of a step.
type EnsembleStep struct {
	Step    int     `json:"step"`
	Model   string  `json:"model"`
	Version int64   `json:"version"`
	Count   uint64  `json:"count"`
	Failed  uint64  `json:"failed"`
	Mean    float64 `json:"mean_us"`
	Wait    float64 `json:"wait_us"`
	Skipped uint64  `json:"skipped"`
}

// Draft is an ensemble that is being made.
type Draft struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Config   json.RawMessage `json:"config"`
	Layout   json.RawMessage `json:"layout,omitempty"`
	Base     int64           `json:"base,omitempty"`
	Revision int64           `json:"revision"`
	Created  time.Time       `json:"created"`
	Changed  time.Time       `json:"changed"`
	Owner    string          `json:"owner"`
}

// DraftNew is the body of POST /api/v1/drafts.
type DraftNew struct {
	Name   string          `json:"name"`
	Config json.RawMessage `json:"config"`
	Layout json.RawMessage `json:"layout"`
	Base   int64           `json:"base"`
}

// DraftSave is the body of PUT /api/v1/drafts/{id}.
type DraftSave struct {
	Name     string          `json:"name"`
	Config   json.RawMessage `json:"config"`
	Layout   json.RawMessage `json:"layout"`
	Revision int64           `json:"revision"` // that it was read with
}

// DraftProblem is something that is wrong with a draft, and where.
type DraftProblem struct {
	Text   string   `json:"text"`
	Step   *int     `json:"step,omitempty"`
	Tensor string   `json:"tensor,omitempty"`
	Input  string   `json:"input,omitempty"`  // of the step, or of the ensemble where there is no step
	Output string   `json:"output,omitempty"` // likewise
	Code   string   `json:"code,omitempty"`   // of the problems that the page says in its own language
	Names  []string `json:"names,omitempty"`  // what the text of a code names, in its order
}

// DraftStep is the model that a step of a draft would run.
type DraftStep struct {
	Model   string   `json:"model"`
	Version int64    `json:"version"` // 0: there is none
	Ready   bool     `json:"ready"`
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`
}

// Validation is the judgement about a draft.
type Validation struct {
	Valid    bool           `json:"valid"`
	Problems []DraftProblem `json:"problems"`
	Tensors  []Tensor       `json:"tensors"`
	Steps    []DraftStep    `json:"steps"`
}

// Publish is the body of POST /api/v1/drafts/{id}/publish.
type Publish struct {
	Promote *bool  `json:"promote"` // nil: true
	Notes   string `json:"notes"`
}

// Trace is one run, with every tensor.
type Trace struct {
	Duration float64       `json:"duration_us"`
	Error    *ErrorBody    `json:"error,omitempty"`
	Steps    []TraceStep   `json:"steps"`
	Tensors  []TraceTensor `json:"tensors"`
}

// TraceStep is one step of a run.
type TraceStep struct {
	Step     int        `json:"step"`
	Model    string     `json:"model"`
	Version  int64      `json:"version"`
	State    string     `json:"state"`
	Start    float64    `json:"start_us"`
	Duration float64    `json:"duration_us"`
	Queue    float64    `json:"queue_us"`
	Input    float64    `json:"input_us"`
	Infer    float64    `json:"infer_us"`
	Output   float64    `json:"output_us"`
	Batch    int        `json:"batch,omitempty"`
	Calls    int        `json:"calls"`
	Fuel     uint64     `json:"fuel,omitempty"`
	Memory   int64      `json:"memory,omitempty"`
	Error    *ErrorBody `json:"error,omitempty"`
}

// TraceTensor is a tensor of a run.
type TraceTensor struct {
	Name     string         `json:"name"`
	Role     string         `json:"role"` // input, between or output
	Step     *int           `json:"step,omitempty"`
	Datatype string         `json:"datatype"`
	Shape    edgewise.Shape `json:"shape"`
	Bytes    int64          `json:"bytes"`
	Data     []byte         `json:"data,omitempty"`
	Summary  *TensorSummary `json:"summary,omitempty"`
}

// TensorSummary summarizes a tensor of numbers.
type TensorSummary struct {
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Mean      float64 `json:"mean"`
	Zeros     int64   `json:"zeros"`
	NotFinite int64   `json:"not_finite"`
}

// GalleryStep is a step of the gallery.
type GalleryStep struct {
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Description string            `json:"description,omitempty"`
	Language    string            `json:"language"`
	Main        string            `json:"main,omitempty"`
	Config      string            `json:"config"`
	Source      map[string]string `json:"source"`
}

// StepDeploy is the body of POST /api/v1/steps/{model}/versions.
type StepDeploy struct {
	Wasm    []byte            `json:"wasm"`
	Config  string            `json:"config"`
	Source  map[string]string `json:"source"`
	Promote *bool             `json:"promote"` // nil: true
	Notes   string            `json:"notes"`
}

// StepTrial is the body of POST /api/v1/steps/trial.
type StepTrial struct {
	Wasm       []byte            `json:"wasm"`
	Config     string            `json:"config"`
	Source     map[string]string `json:"source"`
	Inputs     []TrialTensor     `json:"inputs"`
	Parameters map[string]any    `json:"parameters"`
}

// TrialTensor is an input of a trial.
type TrialTensor struct {
	Name     string         `json:"name"`
	Datatype string         `json:"datatype"`
	Shape    edgewise.Shape `json:"shape"`
	Data     []byte         `json:"data"`
}

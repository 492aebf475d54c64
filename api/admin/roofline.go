package admin

import (
	"fmt"
	"io"
	"time"
)

// Roofline is what the processor does at most: GET /api/v1/roofline. Figures for one core come first, then those for all.
type Roofline struct {
	Hardware string     `json:"hardware"`
	Cores    int        `json:"cores"`           // that the models have
	Compute  [2]float64 `json:"compute"`         // floating-point operations a second, FP32; a multiply and its add are two
	Read     [2]float64 `json:"read"`            // bytes a second that are read from memory
	Cache    int64      `json:"cache"`           // bytes of the largest cache; 0: not known
	Operator float64    `json:"operator_us"`     // microseconds that an operator takes that computes almost nothing
	Measured time.Time  `json:"measured"`        // when
	Took     float64    `json:"seconds"`         // of measurement
	Stale    string     `json:"stale,omitempty"` // why it does not hold for this machine
}

// On is what n cores do: operations and bytes a second.
func (r *Roofline) On(n int) (compute, read float64) {
	share := 0.0
	if r.Cores > 1 {
		share = float64(min(max(n, 1), r.Cores)-1) / float64(r.Cores-1)
	}
	return r.Compute[0] + share*(r.Compute[1]-r.Compute[0]), r.Read[0] + share*(r.Read[1]-r.Read[0])
}

// Describe prints it.
func (r *Roofline) Describe(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", r.Hardware)
	fmt.Fprintf(w, "FP32 matrix products   %6.1f GFLOP/s on one core, %.1f on %d\n", r.Compute[0]/1e9, r.Compute[1]/1e9, r.Cores)
	fmt.Fprintf(w, "reads from memory      %6.1f GB/s on one core, %.1f on %d\n", r.Read[0]/1e9, r.Read[1]/1e9, r.Cores)
	fmt.Fprintf(w, "an empty operator      %6.2f microseconds\n", r.Operator)
	fmt.Fprintf(w, "\nmeasured %s in %.1f s\n", r.Measured.Local().Format("2006-01-02 15:04:05"), r.Took)
	if r.Stale != "" {
		fmt.Fprintln(w, r.Stale)
	}
}

// What bounds a version.
const (
	BoundFew       = "few_requests" // too few requests to say
	BoundQueue     = "queue"        // requests wait for their turn
	BoundCopies    = "copies"       // tensors are prepared and read
	BoundBox       = "box"          // hand-offs between threads and processes, and threads that wait for a core
	BoundCompute   = "compute"      // its operations take what the cores can do
	BoundMemory    = "memory"       // its bytes take what the memory can do
	BoundSmall     = "small_operators"
	BoundOperators = "operators" // neither roof is reached
	BoundRun       = "run"       // its run, of which nothing is known
	BoundStep      = "step"      // a step of an ensemble
)

// Bound is what bounds a ready version: GET /api/v1/models/{model}/versions/{version}/bound. Times are means since it was
// loaded, in milliseconds.
type Bound struct {
	Kind     string `json:"kind"`
	Sentence string `json:"sentence"` // with the figures that say so

	Requests   uint64  `json:"requests"`
	Executions uint64  `json:"executions"`
	Batch      float64 `json:"batch"`    // rows of an execution
	Total      float64 `json:"total_ms"` // of a request, of which:
	Queue      float64 `json:"queue_ms"`
	Input      float64 `json:"input_ms"`
	Infer      float64 `json:"infer_ms"`
	Output     float64 `json:"output_ms"`
	Execution  float64 `json:"execution_ms"` // the run of a batch

	Threads  int       `json:"threads,omitempty"` // cores whose roof the run is compared with
	Work     *RunWork  `json:"work,omitempty"`    // nil: not known
	Reached  float64   `json:"reached,omitempty"` // operations a second
	Share    float64   `json:"share,omitempty"`   // of what the roof allows
	Roofline *Roofline `json:"roofline,omitempty"`
	Step     *ModelID  `json:"step,omitempty"`
	Unsaid   []string  `json:"unsaid"` // what is not known or left out, as sentences
}

// ModelID names a version in answers.
type ModelID struct {
	Model   string `json:"model"`
	Version int64  `json:"version"`
}

// RunWork is what one execution computes and moves, counted in the model's graph.
type RunWork struct {
	Operations float64        `json:"operations"`
	Bytes      float64        `json:"bytes"` // of weights, inputs, outputs and large intermediate tensors
	Set        float64        `json:"set"`   // that one execution touches
	Nodes      int            `json:"nodes"`
	Inputs     string         `json:"inputs"` // where the shapes come from: clients, goldens, recorded, or generated
	Unknown    map[string]int `json:"unknown,omitempty"`
	Integer    float64        `json:"integer,omitempty"` // operations on integers of 8 bits
}

// Intensity is operations for each byte.
func (w *RunWork) Intensity() float64 { return w.Operations / max(w.Bytes, 1) }

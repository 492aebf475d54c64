package edgewise

import (
	"cmp"
	"slices"
	"strings"
)

// EnsembleScheduling chains models into one. An ensemble's tensors have names of their own: those of its inputs and
// outputs, and those that its steps make for each other.
type EnsembleScheduling struct {
	Step                []EnsembleStep `json:"step"`
	MaxInflightRequests uint32         `json:"max_inflight_requests"` // that one step has with its model at a time; 0: no bound
}

// EnsembleStep runs one model inside an ensemble. The maps lead from the model's names to the ensemble's. Condition,
// FanOut and Pinned are not part of Triton's schema.
type EnsembleStep struct {
	ModelName      string             `json:"model_name"`
	ModelVersion   int64              `json:"model_version"` // -1: the live one, when the ensemble is uploaded
	InputMap       map[string]string  `json:"input_map"`
	OutputMap      map[string]string  `json:"output_map"`
	ModelNamespace string             `json:"model_namespace"`
	Condition      *EnsembleCondition `json:"condition,omitempty"` // nil: it always runs
	FanOut         *EnsembleFanOut    `json:"fan_out,omitempty"`   // nil: its model is asked once
	Pinned         *EnsemblePin       `json:"pinned,omitempty"`    // what it runs; set when the ensemble is uploaded
}

// EnsemblePin is the one version that a step runs, whatever becomes of the labels of its model.
type EnsemblePin struct {
	Version int64  `json:"version"`
	Digest  Digest `json:"digest"`
}

// EnsembleCondition lets a step run only when the elements of a tensor compare with a value as it says.
type EnsembleCondition struct {
	Tensor        string                     `json:"tensor"`         // by the ensemble's name
	Operator      string                     `json:"operator"`       // EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL
	Value         float64                    `json:"value"`          // what elements are compared with; false is 0, true is 1
	Text          string                     `json:"text"`           // instead of Value, when they are text
	Over          string                     `json:"over"`           // ANY: one element is enough; ALL
	Otherwise     string                     `json:"otherwise"`      // SKIP: the step's outputs are DefaultOutput; STOP: it has none
	DefaultOutput map[string]EnsembleDefault `json:"default_output"` // by the model's name of the output
}

// EnsembleDefault is what stands for an output of a step that was skipped: another tensor of the ensemble, or Dims
// filled with Value or Text, of the output's type.
type EnsembleDefault struct {
	Tensor string  `json:"tensor"`
	Dims   Shape   `json:"dims"` // the batch dimension included
	Value  float64 `json:"value"`
	Text   string  `json:"text"`
}

// EnsembleFanOut asks a step's model about each row of a tensor and joins the answers to one tensor again. A row is
// what is left of the tensor's dimensions behind the leading ones; the outputs begin with the same leading dimensions.
type EnsembleFanOut struct {
	Input          []string `json:"input"`            // the model's names of the inputs that are cut; the others go whole to each row
	LeadingDims    uint32   `json:"leading_dims"`     // that count the rows; 0 stands for 1
	MaxRows        uint32   `json:"max_rows"`         // 0 stands for 256
	RowsPerRequest uint32   `json:"rows_per_request"` // 0: as many as the model takes in a batch
}

// Pins returns the versions that an ensemble runs, each once, by name and number; none for any other model and for an
// ensemble that was never pinned.
func (m *Model) Pins() []ModelID {
	if m == nil || m.EnsembleScheduling == nil {
		return nil
	}
	var ids []ModelID
	for _, step := range m.EnsembleScheduling.Step {
		if step.Pinned != nil {
			ids = append(ids, ModelID{Name: step.ModelName, Version: step.Pinned.Version})
		}
	}
	slices.SortFunc(ids, func(a, b ModelID) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(ids)
}

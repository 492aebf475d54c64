package admin

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// The policies for versions that do not pass the goldens of their model.
const (
	GoldensRequire = "require" // such a version does not go live; the default
	GoldensWarn    = "warn"    // it goes live; the report and the log say it
	GoldensOff     = "off"     // goldens run only when somebody asks for it
)

// ReasonGoldens is the reason of the error about a version that does not go live because of its goldens.
const ReasonGoldens = "goldens_failed"

// FailsGoldens tells whether a version that works does not go live because of its goldens.
func FailsGoldens(err error) bool {
	own, ok := errors.AsType[*edgewise.Error](err)
	return ok && own.Reason == ReasonGoldens
}

// MediaExample is the content type of an example: a request with its answer. docs/formats/example.md gives its form.
const MediaExample = "application/vnd.edgewise.example"

// Golden is a request to a model with the answer that its versions are to give.
type Golden struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Version   int64           `json:"version"` // whose answer it is; 0: the caller gave it
	Created   time.Time       `json:"created"`
	CreatedBy string          `json:"created_by"`
	Size      int64           `json:"size"` // bytes of the example
	Digest    edgewise.Digest `json:"digest"`
	Inputs    []Tensor        `json:"inputs"`
	Outputs   []Tensor        `json:"outputs"`
}

// GoldenSettings say how the answers of versions are compared and what follows: the body of
// PUT /api/v1/models/{model}/goldens.
type GoldenSettings struct {
	Policy string        `json:"policy"`
	Rules  []CompareRule `json:"rules"`
}

// Goldens are those of a model: GET /api/v1/models/{model}/goldens.
type Goldens struct {
	GoldenSettings
	Goldens    []Golden        `json:"goldens"`     // oldest first
	Reports    []GoldenSummary `json:"reports"`     // the latest of each version that has one, ascending
	Size       int64           `json:"size"`        // bytes of all
	MaxGoldens int             `json:"max_goldens"` // of a model
	MaxSize    int64           `json:"max_size"`
}

// GoldenSummary is the head of a report.
type GoldenSummary struct {
	Version int64     `json:"version"`
	Time    time.Time `json:"time"`
	Passed  bool      `json:"passed"`
	Failed  int       `json:"failed"`
}

// GoldenReport is how a version answered the goldens of its model.
type GoldenReport struct {
	Model        string         `json:"model"`
	Version      int64          `json:"version"`
	Time         time.Time      `json:"time"`
	Milliseconds int64          `json:"milliseconds"`
	Policy       string         `json:"policy"`
	Passed       bool           `json:"passed"`
	Failed       int            `json:"failed"`
	Results      []GoldenResult `json:"results"` // oldest golden first
}

// GoldenResult is how a version answered one golden.
type GoldenResult struct {
	Golden       string  `json:"golden"` // its id
	Name         string  `json:"name"`
	Passed       bool    `json:"passed"`
	Error        string  `json:"error,omitempty"` // why there is no answer
	Milliseconds float64 `json:"milliseconds"`
	// Outputs are those that were compared; of outputs that agree, and behind a bound of all, without the worst elements.
	Outputs []OutputComparison `json:"outputs"`
	// Answer is the one that failed, as the inference protocol has it: of at most 8 KiB, and while there is room for it.
	Answer json.RawMessage `json:"answer,omitempty"`
}

package admin

import (
	"time"

	"github.com/edgewise-ai/edgewise"
)

// History is the last hour: GET /api/v1/statistics.
type History struct {
	End         time.Time `json:"end"`
	StepSeconds int       `json:"step_seconds"`
	Series      []Series  `json:"series"`
}

// Series is the rates and latencies of a version in each step, oldest first. Times are microseconds; nil where there
// was no request.
type Series struct {
	Model    string       `json:"model"`
	Version  int64        `json:"version"`
	Requests []float64    `json:"requests"` // a second: all of them
	Errors   []float64    `json:"errors"`   // a second: those that failed
	Refused  []float64    `json:"refused"`  // a second: those that were refused
	P50      []*float64   `json:"p50_us"`
	P95      []*float64   `json:"p95_us"`
	P99      []*float64   `json:"p99_us"`
	Queue    []*float64   `json:"queue_us"` // mean
	Batch    []*float64   `json:"batch"`    // mean
	Pending  []float64    `json:"pending"`
	Batches  []BatchCount `json:"batches"` // executions by size, over the whole time

	Outcomes []edgewise.OutcomeCount `json:"outcomes"` // over the whole time
}

// BatchCount is how many executions had a size.
type BatchCount struct {
	Size  uint64 `json:"size"`
	Count uint64 `json:"count"`
}

// Tick is the state of the last second. Requests, Errors and Refused are rates of the requests of clients.
type Tick struct {
	Time     time.Time   `json:"time"`
	Ready    bool        `json:"ready"`
	CPU      float64     `json:"cpu"`
	Memory   int64       `json:"memory"`
	Requests float64     `json:"requests"`
	Errors   float64     `json:"errors"`
	Refused  float64     `json:"refused"`
	Models   []TickModel `json:"models"`
}

// TickModel is the rates and latencies of one version in the last second. Its requests are also those that ensembles
// and steps made.
type TickModel struct {
	Model    string   `json:"model"`
	Version  int64    `json:"version"`
	Requests float64  `json:"requests"`
	Errors   float64  `json:"errors"`
	Refused  float64  `json:"refused"`
	P50      *float64 `json:"p50_us"`
	P95      *float64 `json:"p95_us"`
	P99      *float64 `json:"p99_us"`
	Queue    *float64 `json:"queue_us"`
	Batch    *float64 `json:"batch"`
	Pending  float64  `json:"pending"`
}

// LogLine is a line of the log.
type LogLine struct {
	Number  uint64     `json:"number"`
	Time    time.Time  `json:"time"`
	Level   string     `json:"level"`
	Message string     `json:"message"`
	Fields  []LogField `json:"fields"`
}

// LogField is a key of a log line.
type LogField struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// LogPage is a page of the log, latest first.
type LogPage struct {
	Lines []LogLine `json:"lines"`
	Next  uint64    `json:"next,omitempty"`
}

// RequestSummary is an inference request that was answered.
type RequestSummary struct {
	Number   uint64    `json:"number"`
	ID       string    `json:"id,omitempty"`
	Time     time.Time `json:"time"`
	Model    string    `json:"model"`
	Version  int64     `json:"version"`
	Caller   string    `json:"caller,omitempty"`
	Duration float64   `json:"duration_us"`
	Batch    int       `json:"batch"`
	Failed   bool      `json:"failed"`
	Code     string    `json:"code,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// RequestDetail is a request as a waterfall.
type RequestDetail struct {
	RequestSummary
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`
	Spans   []Span   `json:"spans"`
}

// Span is a part of a request's time.
type Span struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind,omitempty"`
	Parent   *int    `json:"parent,omitempty"`
	Start    float64 `json:"start_us"`
	Duration float64 `json:"duration_us"`
	Model    string  `json:"model,omitempty"`
	Version  int64   `json:"version,omitempty"`
	Batch    int     `json:"batch,omitempty"`
	Own      int     `json:"own,omitempty"`
	Fuel     uint64  `json:"fuel,omitempty"`
	Memory   int64   `json:"memory,omitempty"`
	Error    string  `json:"error,omitempty"`
	Waits    []Wait  `json:"waits,omitempty"` // of a queue span, whose time they add up to
}

// Wait is a part of the time that a request waited, and what it waited for; see edgewise.Wait.
type Wait struct {
	Cause    string  `json:"cause"`
	Model    string  `json:"model,omitempty"`
	Version  int64   `json:"version,omitempty"`
	Requests int     `json:"requests,omitempty"`
	Duration float64 `json:"duration_us"`
}

// StoredHistory is up to 31 days: GET /api/v1/statistics/history.
type StoredHistory struct {
	From        time.Time      `json:"from"`
	To          time.Time      `json:"to"`
	StepSeconds int            `json:"step_seconds"`
	Measured    []int64        `json:"measured_seconds"` // of each step; 0: the appliance did not run
	Series      []StoredSeries `json:"series"`
	LeftOut     int            `json:"left_out"` // series with fewer requests than those that are here
}

// StoredSeries is the rates and latencies of each step, oldest first. Times are microseconds; nil where nothing was
// measured. Model, Version and Caller are those that the series was split by.
type StoredSeries struct {
	Model    string     `json:"model,omitempty"`
	Version  int64      `json:"version,omitempty"`
	Caller   string     `json:"caller,omitempty"`
	Requests []*float64 `json:"requests"` // a second: all of them
	Errors   []*float64 `json:"errors"`   // a second: those that failed
	Refused  []*float64 `json:"refused"`  // a second: those that were refused
	P50      []*float64 `json:"p50_us"`
	P95      []*float64 `json:"p95_us"`
	P99      []*float64 `json:"p99_us"`
	Queue    []*float64 `json:"queue_us"` // mean
}

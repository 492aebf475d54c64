package kserve

import (
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// StatisticsBody is the answer to GET /v2/models/stats and GET /v2/models/M/stats.
type StatisticsBody struct {
	ModelStats []ModelStatistics `json:"model_stats"`
}

// ModelStatistics are the statistics of one version, as JSON.
type ModelStatistics struct {
	Name           string              `json:"name"`
	Version        string              `json:"version"`
	LastInference  int64               `json:"last_inference"` // milliseconds since 1970; 0: none yet
	InferenceCount uint64              `json:"inference_count"`
	ExecutionCount uint64              `json:"execution_count"`
	InferenceStats InferenceStatistics `json:"inference_stats"`
	// of a decoupled model, by the place of a response among those to its request, from "0"
	ResponseStats map[string]ResponseStatistics `json:"response_stats"`
	BatchStats    []BatchStatistics             `json:"batch_stats"`
	MemoryUsage   []MemoryUsage                 `json:"memory_usage"`
	EnsembleSteps []EnsembleStepStatistics      `json:"ensemble_steps,omitempty"` // an extension of this box
}

// EnsembleStepStatistics is what an ensemble has measured of one of its steps, from asking the model to its answer.
type EnsembleStepStatistics struct {
	Model   string          `json:"model_name"`
	Version string          `json:"model_version"`
	Success StatisticsCount `json:"success"`
	Fail    StatisticsCount `json:"fail"`
	Wait    StatisticsCount `json:"wait"` // for room under max_inflight_requests
	Rows    uint64          `json:"rows"` // sent by fan-outs
	Skipped uint64          `json:"skipped"`
	Stopped uint64          `json:"stopped"`
}

// InferenceStatistics splits the time of the requests.
type InferenceStatistics struct {
	Success       StatisticsCount `json:"success"`
	Fail          StatisticsCount `json:"fail"`
	Queue         StatisticsCount `json:"queue"`
	ComputeInput  StatisticsCount `json:"compute_input"`
	ComputeInfer  StatisticsCount `json:"compute_infer"`
	ComputeOutput StatisticsCount `json:"compute_output"`
	CacheHit      StatisticsCount `json:"cache_hit"`
	CacheMiss     StatisticsCount `json:"cache_miss"`
}

// ResponseStatistics splits the time of the responses at one place.
type ResponseStatistics struct {
	ComputeInfer  StatisticsCount `json:"compute_infer"`
	ComputeOutput StatisticsCount `json:"compute_output"`
	Success       StatisticsCount `json:"success"`
	Fail          StatisticsCount `json:"fail"`
	EmptyResponse StatisticsCount `json:"empty_response"`
	Cancel        StatisticsCount `json:"cancel"`
}

// StatisticsCount is a number of events and the nanoseconds they took together.
type StatisticsCount struct {
	Count uint64 `json:"count"`
	NS    uint64 `json:"ns"`
}

// BatchStatistics splits the time of the executions of one batch size.
type BatchStatistics struct {
	BatchSize     uint64          `json:"batch_size"`
	ComputeInput  StatisticsCount `json:"compute_input"`
	ComputeInfer  StatisticsCount `json:"compute_infer"`
	ComputeOutput StatisticsCount `json:"compute_output"`
}

// MemoryUsage is the memory that a version takes in one place.
type MemoryUsage struct {
	Type     string `json:"type"` // CPU, CPU_PINNED or GPU
	ID       int64  `json:"id"`
	ByteSize uint64 `json:"byte_size"`
}

// VersionStatistics are the statistics of one version.
type VersionStatistics struct {
	ID edgewise.ModelID
	edgewise.Statistics
}

// NewStatisticsBody makes the body with the statistics in list.
func NewStatisticsBody(list []VersionStatistics) StatisticsBody {
	body := StatisticsBody{ModelStats: make([]ModelStatistics, len(list))}
	for i, measured := range list {
		body.ModelStats[i] = NewModelStatistics(measured.ID, measured.Statistics)
	}
	return body
}

// NewModelStatistics converts the statistics of the version id.
func NewModelStatistics(id edgewise.ModelID, s edgewise.Statistics) ModelStatistics {
	m := ModelStatistics{
		Name:           id.Name,
		Version:        strconv.FormatInt(id.Version, 10),
		InferenceCount: s.InferenceCount,
		ExecutionCount: s.ExecutionCount,
		InferenceStats: InferenceStatistics{
			Success: newCount(s.Success), Fail: newCount(s.Fail), Queue: newCount(s.Queue),
			ComputeInput: newCount(s.ComputeInput), ComputeInfer: newCount(s.ComputeInfer),
			ComputeOutput: newCount(s.ComputeOutput),
			CacheHit:      newCount(s.CacheHit), CacheMiss: newCount(s.CacheMiss),
		},
		ResponseStats: make(map[string]ResponseStatistics, len(s.Responses)),
		BatchStats:    make([]BatchStatistics, 0, len(s.Batches)),
		MemoryUsage:   []MemoryUsage{},
	}
	if s.Process != nil && s.Process.Resident > 0 {
		m.MemoryUsage = append(m.MemoryUsage, MemoryUsage{Type: "CPU", ByteSize: uint64(s.Process.Resident)})
	}
	if !s.LastInference.IsZero() {
		m.LastInference = s.LastInference.UnixMilli()
	}
	for place, r := range s.Responses {
		m.ResponseStats[strconv.Itoa(place)] = ResponseStatistics{
			ComputeInfer: newCount(r.ComputeInfer), ComputeOutput: newCount(r.ComputeOutput), Success: newCount(r.Success),
			Fail: newCount(r.Fail), EmptyResponse: newCount(r.Empty), Cancel: newCount(r.Aborted),
		}
	}
	for _, b := range s.Batches {
		m.BatchStats = append(m.BatchStats, BatchStatistics{
			BatchSize: b.Size, ComputeInput: newCount(b.ComputeInput), ComputeInfer: newCount(b.ComputeInfer),
			ComputeOutput: newCount(b.ComputeOutput),
		})
	}
	for _, step := range s.Steps {
		m.EnsembleSteps = append(m.EnsembleSteps, EnsembleStepStatistics{
			Model: step.Model.Name, Version: strconv.FormatInt(step.Model.Version, 10), Success: newCount(step.Success),
			Fail: newCount(step.Fail),
			Wait: newCount(step.Wait), Rows: step.Rows, Skipped: step.Skipped, Stopped: step.Stopped,
		})
	}
	return m
}

func newCount(d edgewise.Duration) StatisticsCount {
	return StatisticsCount{Count: d.Count, NS: uint64(max(d.Total, 0))}
}

// ServerMetadata is the answer to GET /v2.
type ServerMetadata struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// Extensions returns the protocol's extensions that the box serves, in the order in which other servers list theirs.
func Extensions() []string {
	return []string{
		"classification", "sequence", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
		"model_configuration",
		"system_shared_memory", "cuda_shared_memory", "binary_tensor_data", "parameters", "statistics", "trace", "logging",
	}
}

// ModelMetadata is the answer to GET /v2/models/M.
type ModelMetadata struct {
	Name     string           `json:"name"`
	Versions []string         `json:"versions"` // the ready ones, ascending
	Platform string           `json:"platform"`
	Inputs   []TensorMetadata `json:"inputs"`
	Outputs  []TensorMetadata `json:"outputs"`
}

// TensorMetadata is the signature of an input or an output.
type TensorMetadata struct {
	Name     string         `json:"name"`
	Datatype string         `json:"datatype"` // a wire name, such as FP32
	Shape    edgewise.Shape `json:"shape"`    // -1: any size; the batch dimension included
}

// NewModelMetadata describes v; ready are the ready versions of its model.
func NewModelMetadata(v *edgewise.Version, ready []int64) ModelMetadata {
	m := ModelMetadata{
		Name:     v.ID.Name,
		Versions: make([]string, 0, len(ready)),
		Platform: v.Model.Platform,
		Inputs:   make([]TensorMetadata, 0, len(v.Model.Input)),
		Outputs:  make([]TensorMetadata, 0, len(v.Model.Output)),
	}
	if m.Platform == "" {
		m.Platform = v.Model.Backend
	}
	for _, number := range slices.Sorted(slices.Values(ready)) {
		m.Versions = append(m.Versions, strconv.FormatInt(number, 10))
	}
	for _, in := range v.Model.Input {
		m.Inputs = append(m.Inputs, newTensorMetadata(v.Model, in.Name, in.DataType, in.Dims))
	}
	for _, out := range v.Model.Output {
		m.Outputs = append(m.Outputs, newTensorMetadata(v.Model, out.Name, out.DataType, out.Dims))
	}
	return m
}

func newTensorMetadata(m *edgewise.Model, name string, typ edgewise.DataType, dims edgewise.Shape) TensorMetadata {
	shape := make(edgewise.Shape, 0, len(dims)+1)
	if m.MaxBatchSize > 0 {
		shape = append(shape, -1)
	}
	return TensorMetadata{Name: name, Datatype: typ.String(), Shape: append(shape, dims...)}
}

// Region is an entry of the answer about registered shared memory.
type Region struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	Offset   int64  `json:"offset"`    // bytes
	ByteSize int64  `json:"byte_size"` // bytes
}

// RegisterRequest is the body that registers a region. Key and ByteSize are required.
type RegisterRequest struct {
	Key      *string `json:"key"`
	Offset   int64   `json:"offset"`    // bytes
	ByteSize *int64  `json:"byte_size"` // bytes
}

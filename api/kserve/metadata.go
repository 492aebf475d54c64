package kserve

import (
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

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

// TensorMetadata is what a client has to send for an input, or gets for an output.
type TensorMetadata struct {
	Name     string         `json:"name"`
	Datatype string         `json:"datatype"` // a wire name, such as FP32
	Shape    edgewise.Shape `json:"shape"`    // -1: any size; the batch dimension included
}

// NewModelMetadata describes v, of whose model the versions in ready are.
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

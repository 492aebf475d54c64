package tensorflow

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// Status is the status of a model's versions. Name and Ready are what clients of KServe's v1 protocol read.
type Status struct {
	Versions []VersionStatus `json:"model_version_status"`
	Name     string          `json:"name"`
	Ready    bool            `json:"ready"`
}

// VersionStatus is the status of one version.
type VersionStatus struct {
	Version string `json:"version"`
	State   string `json:"state"` // LOADING, AVAILABLE, UNLOADING or END
	Status  struct {
		ErrorCode    string `json:"error_code"` // OK, or UNKNOWN when it failed
		ErrorMessage string `json:"error_message"`
	} `json:"status"`
}

// unloaded is the reason of a version that was unloaded because a client asked for that, which is no failure.
const unloaded = "unloaded"

// NewStatus describes the versions of a model that are in all, the newest first; of one alone where id has a version.
func NewStatus(id edgewise.ModelID, all []edgewise.Status) Status {
	status := Status{Name: id.Name, Versions: []VersionStatus{}}
	all = slices.DeleteFunc(slices.Clone(all), func(s edgewise.Status) bool {
		return s.ID.Name != id.Name || s.ID.Version == 0 || id.Version != 0 && s.ID.Version != id.Version
	})
	slices.SortFunc(all, func(a, b edgewise.Status) int { return cmp.Compare(b.ID.Version, a.ID.Version) })
	for _, s := range all {
		v := VersionStatus{Version: strconv.FormatInt(s.ID.Version, 10), State: "END"}
		v.Status.ErrorCode = "OK"
		switch s.State {
		case edgewise.StateReady:
			v.State, status.Ready = "AVAILABLE", true
		case edgewise.StateLoading:
			v.State = "LOADING"
		case edgewise.StateUnloading:
			v.State = "UNLOADING"
		default:
			if s.Reason != "" && s.Reason != unloaded {
				v.Status.ErrorCode, v.Status.ErrorMessage = "UNKNOWN", s.Reason
			}
		}
		status.Versions = append(status.Versions, v)
	}
	return status
}

// Metadata is the metadata of a version.
type Metadata struct {
	ModelSpec ModelSpec `json:"model_spec"`
	Metadata  struct {
		SignatureDef struct {
			SignatureDef map[string]Signature `json:"signature_def"`
		} `json:"signature_def"`
	} `json:"metadata"`
}

// ModelSpec names a version.
type ModelSpec struct {
	Name          string `json:"name"`
	SignatureName string `json:"signature_name"`
	Version       string `json:"version"`
}

// Signature is the inputs and outputs of a model.
type Signature struct {
	Inputs     map[string]TensorInfo `json:"inputs"`
	Outputs    map[string]TensorInfo `json:"outputs"`
	MethodName string                `json:"method_name"`
}

// TensorInfo describes an input or an output.
type TensorInfo struct {
	Type  string      `json:"dtype"`
	Shape TensorShape `json:"tensor_shape"`
	Name  string      `json:"name"`
}

// TensorShape is the shape of a tensor.
type TensorShape struct {
	Dim         []Dim `json:"dim"`
	UnknownRank bool  `json:"unknown_rank"`
}

// Dim is one dimension; "-1" is any size.
type Dim struct {
	Size string `json:"size"`
	Name string `json:"name"`
}

// NewMetadata describes a version.
func NewMetadata(v *edgewise.Version) Metadata {
	m := Metadata{ModelSpec: ModelSpec{Name: v.ID.Name, Version: strconv.FormatInt(v.ID.Version, 10)}}
	m.Metadata.SignatureDef.SignatureDef = map[string]Signature{DefaultSignature: {
		Inputs: infos(v.Model.Inputs()), Outputs: infos(v.Model.Outputs()), MethodName: "tensorflow/serving/predict",
	}}
	return m
}

func infos(specs []edgewise.Spec) map[string]TensorInfo {
	all := make(map[string]TensorInfo, len(specs))
	for _, s := range specs {
		info := TensorInfo{Type: typeName(s.Type), Name: s.Name, Shape: TensorShape{Dim: []Dim{}}}
		for _, d := range s.Shape {
			info.Shape.Dim = append(info.Shape.Dim, Dim{Size: strconv.FormatInt(d, 10)})
		}
		all[s.Name] = info
	}
	return all
}

// typeName returns TensorFlow's name of a data type.
func typeName(t edgewise.DataType) string {
	switch t {
	case edgewise.FP16:
		return "DT_HALF"
	case edgewise.BF16:
		return "DT_BFLOAT16"
	case edgewise.FP32:
		return "DT_FLOAT"
	case edgewise.FP64:
		return "DT_DOUBLE"
	case edgewise.Bytes:
		return "DT_STRING"
	}
	return "DT_" + t.String()
}

// Names lists the models, as KServe's v1 protocol does.
type Names struct {
	Models []string `json:"models"`
}

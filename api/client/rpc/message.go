package rpc

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// request makes the message of a request. Its tensors stay where they are. Errors: Invalid for a tensor that is not
// well-formed and for parameters of other types than string, int64, bool and float64.
func request(req *edgewise.Request) (*inference.ModelInferRequest, error) {
	const op = "rpc.request"
	m := &inference.ModelInferRequest{
		ModelName: req.Model.Name, ModelVersion: number(req.Model), Id: req.ID,
		Parameters: map[string]*inference.InferParameter{},
	}
	for i := range req.Inputs {
		t := &req.Inputs[i]
		if err := t.Check(); err != nil {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "%w", err)
		}
		m.Inputs = append(m.Inputs, &inference.ModelInferRequest_InferInputTensor{
			Name: t.Name, Datatype: t.Type.String(), Shape: t.Shape,
		})
		m.RawInputContents = append(m.RawInputContents, t.Data)
	}
	for _, name := range req.Outputs {
		m.Outputs = append(m.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{Name: name})
	}
	for name, value := range req.Parameters {
		if m.Parameters[name] = parameter(value); m.Parameters[name] == nil {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "parameter %q is a %T: want a string, int64, bool or float64",
				name, value)
		}
	}
	if s := req.Sequence; s.Active() {
		m.Parameters["sequence_id"] = parameter(s.Name)
		if s.Name == "" {
			m.Parameters["sequence_id"] = parameter(s.ID)
		}
		m.Parameters["sequence_start"], m.Parameters["sequence_end"] = parameter(s.Start), parameter(s.End)
	}
	if req.Priority != 0 {
		m.Parameters["priority"] = parameter(req.Priority)
	}
	if req.Timeout > 0 {
		m.Parameters["timeout"] = parameter(int64((req.Timeout + time.Microsecond - 1) / time.Microsecond))
	}
	return m, nil
}

// parameter is the message of a parameter's value, nil for one that has no form. A number is signed where it can be: all
// servers read that.
func parameter(value any) *inference.InferParameter {
	switch v := value.(type) {
	case bool:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: v}}
	case int64:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: v}}
	case uint64:
		if v <= math.MaxInt64 {
			return parameter(int64(v))
		}
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: v}}
	case float64:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: v}}
	case string:
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: v}}
	}
	return nil
}

// response reads an answer, whose bytes it keeps. Errors: those of ErrAnswer.
func response(m *inference.ModelInferResponse) (*edgewise.Response, error) {
	r := &edgewise.Response{ID: m.GetId(), Model: edgewise.ModelID{Name: m.GetModelName()}}
	if n, err := strconv.ParseInt(m.GetModelVersion(), 10, 64); err == nil { // one that is no number is left 0
		r.Model.Version = n
	}
	for name, value := range m.GetParameters() {
		if r.Parameters == nil {
			r.Parameters = map[string]any{}
		}
		switch v := value.GetParameterChoice().(type) {
		case *inference.InferParameter_BoolParam:
			r.Parameters[name] = v.BoolParam
		case *inference.InferParameter_Int64Param:
			r.Parameters[name] = v.Int64Param
		case *inference.InferParameter_Uint64Param:
			r.Parameters[name] = int64(min(v.Uint64Param, math.MaxInt64))
		case *inference.InferParameter_DoubleParam:
			r.Parameters[name] = v.DoubleParam
		case *inference.InferParameter_StringParam:
			r.Parameters[name] = v.StringParam
		}
	}
	outputs, raw := m.GetOutputs(), m.GetRawOutputContents()
	if len(raw) != 0 && len(raw) != len(outputs) {
		return nil, unusable("it has %d outputs and the contents of %d", len(outputs), len(raw))
	}
	for i, out := range outputs {
		t := edgewise.Tensor{Name: out.GetName(), Shape: out.GetShape()}
		var ok bool
		if t.Type, ok = edgewise.ParseDataType(out.GetDatatype()); !ok {
			return nil, unusable("output %q has the unknown datatype %.64q", t.Name, out.GetDatatype())
		}
		if len(raw) > 0 {
			t.Data = raw[i]
		} else {
			t.Data = elements(t.Type, out.GetContents())
		}
		if err := t.Check(); err != nil {
			return nil, unusable("%w", err)
		}
		r.Outputs = append(r.Outputs, t)
	}
	return r, nil
}

func unusable(format string, args ...any) error {
	return edgewise.Errorf("rpc.response", edgewise.Internal, "%w: %w", client.ErrAnswer, fmt.Errorf(format, args...))
}

// elements are the bytes of typed contents.
func elements(t edgewise.DataType, c *inference.InferTensorContents) []byte {
	switch t {
	case edgewise.Bool:
		return encode(c.GetBoolContents())
	case edgewise.Int8:
		return encode(narrow[int8](c.GetIntContents()))
	case edgewise.Int16:
		return encode(narrow[int16](c.GetIntContents()))
	case edgewise.Int32:
		return encode(c.GetIntContents())
	case edgewise.Int64:
		return encode(c.GetInt64Contents())
	case edgewise.Uint8:
		return encode(narrow[uint8](c.GetUintContents()))
	case edgewise.Uint16:
		return encode(narrow[uint16](c.GetUintContents()))
	case edgewise.Uint32:
		return encode(c.GetUintContents())
	case edgewise.Uint64:
		return encode(c.GetUint64Contents())
	case edgewise.FP32:
		return encode(c.GetFp32Contents())
	case edgewise.FP64:
		return encode(c.GetFp64Contents())
	}
	var data []byte
	for _, element := range c.GetBytesContents() { // FP16 and BF16 have no such form
		data = edgewise.AppendElement(data, string(element))
	}
	return data
}

func encode[T any](list []T) []byte {
	data, _ := binary.Append(nil, binary.LittleEndian, list) // numbers have a form
	return data
}

func narrow[To int8 | int16 | uint8 | uint16, From int32 | uint32](list []From) []To {
	all := make([]To, len(list))
	for i, v := range list {
		all[i] = To(v)
	}
	return all
}

package ort

/*
#include <stdlib.h>
#include "describe.h"
*/
import "C"

import (
	"unsafe"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
)

// Value is what a session says of one of its inputs or outputs, inferred types and shapes included.
type Value struct {
	Name   string
	Tensor bool              // it is a dense tensor: what follows is set
	Type   edgewise.DataType // InvalidType: one that the protocol does not have
	Shape  edgewise.Shape    // -1: any size; nil: the number of dimensions is not known
}

// Inputs returns what the session says of its inputs. Those with a default are not among them.
func (s *Session) Inputs() ([]Value, error) { return s.describe(0) }

// Outputs returns what the session says of its outputs.
func (s *Session) Outputs() ([]Value, error) { return s.describe(1) }

func (s *Session) describe(outputs C.int) ([]Value, error) {
	const op = "ort.Describe"
	var n C.size_t
	if err := failed(op, edgewise.Internal, "counting a session's tensors",
		C.ew_count(s.lib.api, s.handle, outputs, &n)); err != nil {
		return nil, err
	}
	values := make([]Value, n)
	for i := range values {
		var v C.ew_value
		if err := failed(op, edgewise.Internal, "describing a session's tensor",
			C.ew_describe(s.lib.api, s.handle, outputs, C.size_t(i), &v)); err != nil {
			return nil, err
		}
		values[i] = valueOf(&v)
		C.free(unsafe.Pointer(v.name))
	}
	return values, nil
}

func valueOf(v *C.ew_value) Value {
	value := Value{Name: C.GoString(v.name), Tensor: v.kind == C.EW_KIND_TENSOR}
	if !value.Tensor {
		return value
	}
	value.Type, _ = onnxfile.DataType(int32(v.tensor._type))
	if v.ranked == 0 {
		return value
	}
	value.Shape = make(edgewise.Shape, v.tensor.rank)
	for d := range value.Shape {
		value.Shape[d] = max(int64(v.tensor.shape[d]), -1)
	}
	return value
}

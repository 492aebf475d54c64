package ort

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// The codes of ONNX Runtime's errors that input can cause.
const (
	codeFail             = 1
	codeInvalidArgument  = 2
	codeRuntimeException = 6
)

// fault is a run that ONNX Runtime has ended with an error.
type fault struct {
	code    int32
	message string
}

func (f *fault) Error() string { return f.message }

// inKernel marks the messages of errors that an operator returns while it computes.
const inKernel = "Non-zero status code returned while running"

// ofDevice are parts of messages that tell of a device's own failure.
var ofDevice = []string{"CUDA", "CUDNN", "CUBLAS", "cudaError", "WebGPU", "webgpu", "wgpu::"}

// deviceLost is the message of a run after which nothing runs on the device any more in this process.
type deviceLost string

func (d deviceLost) Error() string { return string(d) }

// DeviceLost marks the error; see edgewise.DeviceLost.
func (deviceLost) DeviceLost() bool { return true }

// overLimit is the part of a message that tells of the bound of the arena.
const overLimit = "is smaller than requested bytes of"

// ofMemory are parts of messages that tell of memory that cannot be had.
var ofMemory = []string{"Failed to allocate memory", "bad_alloc", "bad allocation", overLimit, invalidBuffer}

// invalidBuffer is what the provider for WebGPU says of a buffer that the device had no memory for, when it is used.
const invalidBuffer = "is invalid due to a previous error"

func (f *fault) says(parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(f.message, part) })
}

// byOperator tells whether an operator refused the values or the shapes that it got.
func (f *fault) byOperator() bool {
	computes := f.code == codeFail || f.code == codeInvalidArgument || f.code == codeRuntimeException
	return computes && strings.Contains(f.message, inKernel) && !f.says(ofDevice) && !f.says(ofMemory)
}

// kind returns the kind of the error. proven says that the model has computed other input: then it is the input that an
// operator refuses, and otherwise the model is broken.
func (f *fault) kind(proven bool) edgewise.Kind {
	switch {
	case f.says(ofMemory):
		return edgewise.Exhausted
	case f.byOperator():
		if proven {
			return edgewise.Invalid
		}
	case f.code == codeInvalidArgument: // before any operator ran: names, types and shapes
		return edgewise.Invalid
	}
	return edgewise.Internal
}

// proof is what is known of whether a model can compute at all.
type proof struct {
	ran    atomic.Bool  // a run has ended well
	trials atomic.Int32 // attempts to find input that the model computes
}

// maxTrials bounds how many faults of a model that has never computed anything are followed by attempts with other
// input.
const maxTrials = 4

// judge makes an error of a fault that inputs have caused.
func (s *Session) judge(ctx context.Context, f *fault, in []edgewise.Tensor, want []string) error {
	if f.says(s.lost) {
		return edgewise.Errorf("ort.Run", edgewise.Unavailable, "the device is lost: %w", deviceLost(f.message))
	}
	if f.byOperator() && !s.proof.ran.Load() && s.proof.trials.Add(1) <= maxTrials {
		s.prove(ctx, in, want)
	}
	kind := f.kind(s.proof.ran.Load())
	switch {
	case kind == edgewise.Invalid:
		return edgewise.Errorf("ort.Run", kind, "ONNX Runtime refuses the input: %s", f.message)
	case f.says([]string{overLimit}):
		return edgewise.Errorf("ort.Run", kind, "the run takes more memory than the process of the model may have "+
			"(onnx.max_memory_bytes): %s", f.message)
	}
	return edgewise.Errorf("ort.Run", kind, "ONNX Runtime failed: %s", f.message)
}

// prove runs ones: in the smallest shapes that the model declares, and in the shapes of in; and both again with -1 in
// the first place, which is a size, an index or an axis that fits where 1 does not. Zeros would end the process where a
// model divides integers.
func (s *Session) prove(ctx context.Context, in []edgewise.Tensor, want []string) {
	declared, err := s.Inputs()
	if err != nil {
		return
	}
	for _, smallest := range []bool{true, false} {
		for _, minus := range []bool{false, true} {
			inputs := make([]edgewise.Tensor, len(in))
			for i := range in {
				shape := in[i].Shape
				if smallest {
					shape = smallestShape(declared, &in[i])
				}
				inputs[i] = edgewise.Tensor{Name: in[i].Name, Type: in[i].Type, Shape: shape, Data: ones(in[i].Type, shape, minus)}
			}
			if result, err := s.attempt(ctx, inputs, want, nil); err == nil { // which sets proof.ran
				result.Free()
				return
			}
		}
	}
}

// smallestShape is the declared shape of an input, with 1 for every size that is open.
func smallestShape(declared []Value, in *edgewise.Tensor) edgewise.Shape {
	at := slices.IndexFunc(declared, func(v Value) bool { return v.Name == in.Name })
	if at < 0 || declared[at].Shape == nil {
		return in.Shape
	}
	shape := slices.Clone(declared[at].Shape)
	for d := range shape {
		shape[d] = max(shape[d], -shape[d])
	}
	return shape
}

// maxOnes bounds the bytes of an input of ones.
const maxOnes = 64 << 20

// ones returns the bytes of a tensor of ones, or of strings "1"; nil when there would be too many. minus puts -1 into
// the first place of signed integers.
func ones(t edgewise.DataType, shape edgewise.Shape, minus bool) []byte {
	n, ok := shape.Elements()
	one := oneOf(t)
	if !ok || n > maxOnes/int64(len(one)) {
		return nil
	}
	data := bytes.Repeat(one, int(n))
	if minus && n > 0 && t.IsSigned() {
		copy(data, bytes.Repeat([]byte{0xff}, len(one)))
	}
	return data
}

func oneOf(t edgewise.DataType) []byte {
	switch {
	case t == edgewise.Bytes:
		return edgewise.AppendElement(nil, "1")
	case t.IsFloat():
		return scalar.AppendFloat(nil, t, 1)
	}
	return append([]byte{1}, make([]byte, max(t.Size()-1, 0))...)
}

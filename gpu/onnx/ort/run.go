package ort

/*
#include <stdlib.h>
#include "ort.h"
*/
import "C"

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
	"unsafe"

	ortgo "github.com/yalue/onnxruntime_go"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/aligned"
	"github.com/edgewise-ai/edgewise/gpu/onnx/onnxfile"
)

// call is the memory of one run, taken from its session's idle calls and given back when the result is released.
type call struct {
	c       *C.ew_call
	options *ortgo.RunOptions // carries the terminate flag
	inputs  []C.ew_tensor     // views of the C arrays
	outputs []C.ew_tensor
	inNames []*C.char
	outName []*C.char
	values  []unsafe.Pointer // the outputs' OrtValue*
	handle  unsafe.Pointer   // OrtRunOptions* of options
	end     func()           // sets the terminate flag, and then says so
	flagged chan struct{}    // one token: the flag is set
}

// run is Run with outputs that have a destination made there.
func (s *Session) run(ctx context.Context, in []edgewise.Tensor, want []string, into []destination) (*edgewise.Result,
	error,
) {
	result, err := s.attempt(ctx, in, want, into)
	f, ok := errors.AsType[*fault](err)
	if ok && f.says(ofMemory) && s.lib.trimmer.release() { // the arena held it in pieces that were too small
		result, err = s.attempt(ctx, in, want, into)
		f, ok = errors.AsType[*fault](err)
	}
	if ok {
		return nil, s.judge(ctx, f, in, want)
	}
	return result, err
}

// attempt is run, whose error is a *fault where ONNX Runtime ended the run.
func (s *Session) attempt(ctx context.Context, in []edgewise.Tensor, want []string,
	into []destination,
) (*edgewise.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := s.take()
	if err != nil {
		return nil, err
	}
	var pins runtime.Pinner
	err = s.fill(c, &pins, in, want)
	if err == nil {
		c.bind(&pins, into)
		err = s.execute(ctx, c)
	}
	var outputs []edgewise.Tensor
	if err == nil {
		outputs, err = s.read(c, len(in), want)
	}
	pins.Unpin()
	if err != nil {
		s.give(c)
		return nil, err
	}
	ns := c.c.ns
	return &edgewise.Result{
		Outputs: outputs, Input: time.Duration(ns[0]), Infer: time.Duration(ns[1]), Output: time.Duration(ns[2]),
		Free: func() { s.give(c) },
	}, nil
}

func (s *Session) take() (*call, error) {
	select {
	case c := <-s.calls:
		return c, nil
	default:
		return s.newCall()
	}
}

func (s *Session) newCall() (*call, error) {
	options, err := ortgo.NewRunOptions()
	if err != nil {
		return nil, edgewise.Errorf("ort.Run", edgewise.Internal, "run options: %w", err)
	}
	n, m := len(s.inputs), len(s.outputs)
	raw := C.ew_call_new(C.size_t(n), C.size_t(m))
	if raw == nil {
		_ = options.Destroy()
		return nil, edgewise.Errorf("ort.Run", edgewise.Exhausted, "no memory for a call with %d inputs and %d outputs", n, m)
	}
	c := &call{
		c: raw, options: options, handle: field(options, "o"),
		inputs: unsafe.Slice(raw.input, n), outputs: unsafe.Slice(raw.output, m),
		inNames: unsafe.Slice((**C.char)(unsafe.Pointer(raw.input_names)), n),
		outName: unsafe.Slice((**C.char)(unsafe.Pointer(raw.output_names)), m),
		values:  unsafe.Slice(raw.output_values, m), flagged: make(chan struct{}, 1),
	}
	c.end = func() {
		_ = options.Terminate()
		c.flagged <- struct{}{}
	}
	for key, value := range s.runOptions {
		if err := setRunOption(s.lib, c.handle, key, value); err != nil {
			c.destroy(s.lib)
			return nil, err
		}
	}
	return c, nil
}

// setRunOption writes a run configuration entry.
func setRunOption(lib *Library, options unsafe.Pointer, key, value string) error {
	cKey, cValue := C.CString(key), C.CString(value)
	defer C.free(unsafe.Pointer(cKey))
	defer C.free(unsafe.Pointer(cValue))
	return failed("ort.Run", edgewise.Invalid, "run option "+key, C.ew_run_option(lib.api, options, cKey, cValue))
}

// give ends the use of a call's outputs and keeps it for the next run.
func (s *Session) give(c *call) {
	C.ew_call_clear(s.lib.api, c.c)
	s.lib.trimmer.ran()
	select {
	case s.calls <- c:
	default:
		c.destroy(s.lib)
	}
}

func (c *call) destroy(lib *Library) {
	C.ew_call_free(lib.api, c.c)
	_ = c.options.Destroy()
}

// fill describes inputs and wanted outputs to C. The inputs' bytes are pinned, not copied.
func (s *Session) fill(c *call, pins *runtime.Pinner, in []edgewise.Tensor, want []string) error {
	if len(in) > len(c.inputs) || len(want) > len(c.outputs) {
		return edgewise.Errorf("ort.Run", edgewise.Invalid, "%d inputs and %d outputs, the model has %d and %d", len(in),
			len(want), len(c.inputs), len(c.outputs))
	}
	c.c.inputs, c.c.outputs = C.size_t(len(in)), C.size_t(len(want)) // first: give clears as many, also after an error
	for i := range in {
		name, ok := s.inputs[in[i].Name]
		if !ok || len(in[i].Shape) > edgewise.MaxRank {
			return edgewise.Errorf("ort.Run", edgewise.Invalid, "input %q: the model has none of that name and shape %v",
				in[i].Name, in[i].Shape)
		}
		c.inNames[i] = name
		describe(&c.inputs[i], pins, &in[i])
	}
	for i, output := range want {
		name, ok := s.outputs[output]
		if !ok {
			return edgewise.Errorf("ort.Run", edgewise.Invalid, "the model has no output %q", output)
		}
		c.outName[i] = name
	}
	return nil
}

func describe(t *C.ew_tensor, pins *runtime.Pinner, from *edgewise.Tensor) {
	t._type = C.int32_t(onnxfile.Number(from.Type))
	t.rank = C.int32_t(len(from.Shape))
	for d, size := range from.Shape {
		t.shape[d] = C.int64_t(size)
	}
	t.size = C.uint64_t(len(from.Data))
	t.data = nil
	if data := alignedData(from); len(data) > 0 {
		pins.Pin(&data[0])
		t.data = unsafe.Pointer(&data[0])
	}
}

// alignedData returns the tensor's bytes where its elements may be read as such. Bytes of requests are: only a
// tensor that follows another one of an odd length in the same body is copied.
func alignedData(t *edgewise.Tensor) []byte {
	size := t.Type.Size()
	if size <= 1 || len(t.Data) == 0 || uintptr(unsafe.Pointer(&t.Data[0]))%uintptr(size) == 0 {
		return t.Data
	}
	data := aligned.Bytes(len(t.Data), int(size))
	copy(data, t.Data)
	return data
}

func (s *Session) execute(ctx context.Context, c *call) error {
	var stop func() bool
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, c.end)
	}
	e := C.ew_run(s.lib.api, s.handle, c.handle, c.c)
	if err := c.unwatch(stop); err != nil {
		return edgewise.Errorf("ort.Run", edgewise.Internal, "clearing the terminate flag: %w", err)
	}
	if e.code == 0 {
		s.proof.ran.Store(true)
		return nil
	}
	defer C.free(unsafe.Pointer(e.message))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &fault{int32(e.code), C.GoString(e.message)}
}

// unwatch ends the watch of a context that stop stops; it waits for a terminate flag that is being set, and clears it.
func (c *call) unwatch(stop func() bool) error {
	if stop == nil || stop() {
		return nil
	}
	<-c.flagged
	return c.options.UnsetTerminate()
}

// read makes tensors of a call's outputs. Their bytes are ONNX Runtime's own, except for strings, which are framed, and
// for outputs that the runtime left in the memory of one of the call's inputs, which is read only until Run returns.
func (s *Session) read(c *call, inputs int, want []string) ([]edgewise.Tensor, error) {
	tensors := make([]edgewise.Tensor, len(want))
	for i, name := range want {
		t := &c.outputs[i]
		kind, ok := onnxfile.DataType(int32(t._type))
		if !ok {
			return nil, edgewise.Errorf("ort.Run", edgewise.Unsupported,
				"output %q has ONNX element type %d, which the protocol does not have", name, t._type)
		}
		shape := make(edgewise.Shape, t.rank)
		for d := range shape {
			shape[d] = int64(t.shape[d])
		}
		tensors[i] = edgewise.Tensor{Name: name, Type: kind, Shape: shape}
		if kind != edgewise.Bytes {
			tensors[i].Data = unsafe.Slice((*byte)(t.data), int64(t.size)*kind.Size())
			if c.isInput(inputs, tensors[i].Data) {
				tensors[i].Data = slices.Clone(tensors[i].Data)
			}
			continue
		}
		data, err := s.frame(c.values[i], shape, uint64(t.size))
		if err != nil {
			return nil, err
		}
		tensors[i].Data = data
	}
	return tensors, nil
}

// isInput tells whether data stands in the memory of one of the call's first n inputs.
func (c *call) isInput(n int, data []byte) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for i := range n {
		start := uintptr(c.inputs[i].data)
		if len(data) > 0 && from >= start && from < start+uintptr(c.inputs[i].size) {
			return true
		}
	}
	return false
}

// frame copies a string tensor's elements, each behind its length.
func (s *Session) frame(value unsafe.Pointer, shape edgewise.Shape, size uint64) ([]byte, error) {
	count, _ := shape.Elements()
	content := make([]byte, size+1)
	offsets := make([]C.size_t, count+1)
	e := C.ew_strings(s.lib.api, value, (*C.char)(unsafe.Pointer(&content[0])), C.size_t(size), &offsets[0],
		C.size_t(count))
	if e.code != 0 {
		defer C.free(unsafe.Pointer(e.message))
		return nil, edgewise.Errorf("ort.Run", edgewise.Internal, "reading a string output: %s", C.GoString(e.message))
	}
	offsets[count] = C.size_t(size)
	framed := make([]byte, 0, int(size)+4*int(count))
	for i := range count {
		framed = edgewise.AppendElement(framed, string(content[offsets[i]:offsets[i+1]]))
	}
	return framed, nil
}
